"""A plan of loads on the terminal."""

from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.recovery.plan_text import ALONE, counts_of, notes_of, pace_of
from incload_assets.recovery.planned import Plan
from resources.wording import several

_MARKS = {"nothing to do": "[dim]=[/]", "changes": "[yellow]~[/]", "would stop": "[red]✗[/]"}


def show(plan: Plan) -> None:
    """Prints a plan.

    Args:
        plan: The plan.
    """
    if not plan.windows:
        screen.say(f"{plan.table}: every partition is up to date with its source.")
        return
    number = len(plan.windows)
    partitions = several(number, "partition")
    screen.say(f"{plan.table}: {partitions}, {ALONE}. Nothing was written.")
    for window in plan.windows:
        screen.say(f"{_MARKS[window.outcome]} {window.partition}  {escape(counts_of(window))}")
        for note in notes_of(window):
            screen.say(f"    {escape(note)}")
    if pace := pace_of(plan):
        screen.say(pace[:1].upper() + pace[1:] + ".")

"""``incload explain``: what a declaration does, in sentences."""

from collections.abc import Iterator

from rich.markup import escape

from incload_assets.automation.check_jobs import JOB_OF
from incload_assets.checks import reconciliation
from incload_assets.checks.kinds import LightCheck, TableCheck
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, light_checks, table_checks
from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AsJson, TableName
from incload_assets.cli.support.project import open_project
from incload_assets.declaration.explained import explained
from incload_assets.declaration.table import Table
from incload_assets.progress.observed import SENSOR


def explain(table: TableName, as_json: AsJson = False) -> None:
    """Say in sentences what the declaration of a table does.

    What is read when, which change wins, what is deleted, which rows are quarantined, what stops a load, what late,
    changed and removed data does, and which checks and schedules the table has.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not needed.

    Example: `incload explain orders`
    """
    with open_project() as project:
        wanted = project.table(table)
    said = {**explained(wanted), "Checked": [*_checked(wanted)]}
    if as_json:
        screen.print_json({"table": wanted.name, **{about.lower(): lines for about, lines in said.items()}})
        return
    about = " ".join((wanted.function.__doc__ or "").split())
    screen.say(escape(f"{wanted.name}: {about}" if about else wanted.name))
    for heading, lines in said.items():
        screen.say(f"\n{heading}")
        for line in lines:
            screen.say(escape(f"- {line}"))


def _checked(table: Table) -> Iterator[str]:
    """The table's checks, with when they run."""
    found: list[LightCheck | TableCheck] = [
        *(LIGHT_CHECKS[name] for name in light_checks(table)),
        *(TABLE_CHECKS[name] for name in table_checks(table)),
    ]
    described = {check.name: check.description for check in found} | {reconciliation.NAME: reconciliation.DESCRIPTION}
    for name, description in described.items():
        when = f"{cron} UTC" if (cron := JOB_OF[name].cron) else "with the sensor's looks"
        yield f"{name} ({when}): {description}"
    yield f"The sensor {SENSOR} requests the loads; a run that loads evaluates the checks, too."

"""``incload game-day``: a test whether loads with the present configuration survive failures."""

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.drill import GameDay, play
from incload_assets.cli.support.folder import enter_project
from incload_assets.platform.settings import Settings


def game_day(ctx: typer.Context) -> None:
    """Load a scratch table while loads are killed, run twice, files are rewritten and the table is lost.

    It tests the configured Spark and storage. After each event the table has to be what its files say. It takes some
    minutes; the exit code is 1 if the table was ever wrong.

    - **Writes:** folders of its own in the lake, which are removed at the end; a lost game keeps them, and says where
      they are. Your tables are left alone.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload game-day`
    """
    enter_project()
    verbose: bool = ctx.obj
    game = GameDay.begin(Settings())
    with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
        bar = progress.add_task("", total=len(game.events))
        for what, seconds, wrong in play(game):
            progress.advance(bar)
            console.print("[red]✗[/] " if wrong else "[green]✓[/] ", end="")
            console.print(f"{what}  {seconds:.1f} s{f': {wrong}' if wrong else ''}", markup=False)
    if wrong:
        screen.complain(f"the game is lost; its files and tables are in {game.root}")
        raise typer.Exit(1)
    screen.say("Whatever happened, the table was right.")

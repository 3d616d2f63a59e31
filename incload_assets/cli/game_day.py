"""``incload game-day``: a test whether loads with the present configuration survive failures."""

import typer


def game_day(ctx: typer.Context) -> None:
    """Load a scratch table while loads are killed, run twice, files are rewritten and the table is lost.

    By the Spark and into the lake that are configured, in a folder of its own, which is removed at the end. After each
    event the table has to be what its files say. Takes some minutes; changes nothing else.
    """
    from incload_assets.cli import screen
    from incload_assets.cli.project import enter_project
    from resources.settings import Settings

    enter_project()
    from incload_assets.cli.drill import GameDay, play

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

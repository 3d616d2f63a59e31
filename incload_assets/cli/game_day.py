"""``incload game-day``: a test whether loads with the present configuration survive failures."""

from typing import Annotated

import typer


def game_day(
    ctx: typer.Context,
    faults: Annotated[
        bool, typer.Option("--faults", help="Inject the seven failure modes and wait for their alerts instead.")
    ] = False,
) -> None:
    """Load a scratch table while loads are killed, run twice, files are rewritten and the table is lost.

    It tests the configured Spark and storage. After each event the table has to be what its files say. It takes some
    minutes; the exit code is 1 if the table was ever wrong.

    With `--faults`, each failure mode of the runbooks is injected for real. A Prometheus and an Alertmanager, which
    have to be installed, watch the table with the rendered rules; the drill waits for the alert, applies the runbook's
    remedy, waits until all is well, and shows how long both took. It is lost if an alert takes longer than a minute,
    or the recovery longer than five.

    - **Writes:** a folder of its own in the lake, which is removed at the end; a lost game keeps it. Your tables are
      left alone.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload game-day --faults`
    """
    from incload_assets.cli import screen
    from incload_assets.cli.folder import enter_project
    from resources.settings import Settings

    enter_project()
    if faults:
        _play_faults(verbose=ctx.obj)
        return
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


def _play_faults(*, verbose: bool) -> None:
    from incload_assets.cli import screen
    from incload_assets.cli.fault_scratch import fault_scratch
    from incload_assets.monitoring.drill.fault_drill import play, require_programs
    from incload_assets.monitoring.drill.faults import FAULTS
    from resources.settings import Settings

    require_programs()
    lost = False
    with (
        screen.apart(verbose=verbose) as console,
        screen.progress_bar(console) as progress,
        fault_scratch(Settings()) as scratch,
    ):
        bar = progress.add_task("", total=len(FAULTS))
        for outcome in play(scratch):
            progress.advance(bar)
            console.print("[red]✗[/] " if outcome.wrong else "[green]✓[/] ", end="")
            told = outcome.wrong or (
                f"{', '.join(outcome.alerts)} after {outcome.detected:.1f} s, recovered after {outcome.recovered:.1f} s"
            )
            console.print(f"{outcome.fault.mode} {outcome.fault.runbook}: {outcome.fault.about}: {told}", markup=False)
            lost = lost or outcome.wrong is not None
    if lost:
        screen.complain("the drill is lost; `incload docs runbooks` has a section for each failure mode")
        raise typer.Exit(1)
    screen.say("Each failure was noticed by its alert and recovered by its runbook.")

"""``incload game-day``: a test whether loads with the present configuration survive failures."""

from collections.abc import Iterable
from typing import Annotated

import typer


def game_day(
    ctx: typer.Context,
    faults: Annotated[
        bool,
        typer.Option("--faults", help="Inject the seven failure modes and two kinds of lag instead."),
    ] = False,
) -> None:
    """Load a scratch table while loads are killed, run twice, files are rewritten and the table is lost.

    It tests the configured Spark and storage. After each event the table has to be what its files say. It takes some
    minutes; the exit code is 1 if the table was ever wrong.

    With `--faults`, each failure mode of the runbooks is injected for real, and a table falls behind its source by a
    burst of changes and by a run that hangs. A Prometheus and an Alertmanager, which have to be installed, watch the
    table with the rendered rules; the drill waits for the alert, applies the runbook's remedy, waits until all is well,
    and shows how long both took. It is lost if an alert takes longer than a minute, or the recovery longer than five.

    - **Writes:** folders of its own in the lake, which are removed at the end; a lost game keeps them, and says where
      they are. Your tables are left alone.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload game-day --faults`
    """
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.folder import enter_project
    from incload_assets.platform.settings import Settings

    enter_project()
    if faults:
        _play_faults(verbose=ctx.obj)
        return
    from incload_assets.cli.support.drill import GameDay, play

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
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.fault_scratch import FaultScratch, fault_scratch
    from incload_assets.cli.support.lag_scratch import LagScratch
    from incload_assets.monitoring.drill.fault_drill import Outcome, play, require_programs
    from incload_assets.monitoring.drill.faults import FAULTS
    from incload_assets.monitoring.drill.lag_faults import LAG_FAULTS
    from incload_assets.platform.settings import Settings

    require_programs()
    with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
        bar = progress.add_task("", total=len(FAULTS) + len(LAG_FAULTS))

        def show(scratch: FaultScratch, outcomes: Iterable[Outcome]) -> None:
            for outcome in outcomes:
                progress.advance(bar)
                console.print("[red]✗[/] " if outcome.wrong else "[green]✓[/] ", end="")
                console.print(outcome.told, markup=False)
                scratch.lost = scratch.lost or outcome.wrong is not None
            if scratch.lost:
                console.print(f"For inspection: {scratch.kept}", markup=False, soft_wrap=True)

        with fault_scratch(FaultScratch, Settings()) as scratch:
            show(scratch, play(scratch, FAULTS))
        with fault_scratch(LagScratch, Settings()) as lagging:
            show(lagging, play(lagging, LAG_FAULTS))
    if scratch.lost or lagging.lost:
        screen.complain("the drill is lost; `incload docs runbooks` has a section for each failure mode")
        raise typer.Exit(1)
    screen.say("Each failure was noticed by its alert and recovered by its runbook.")

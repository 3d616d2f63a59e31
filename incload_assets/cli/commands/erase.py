"""``incload erase``: a person is erased from the lake, with a proof."""

from collections.abc import Callable
from typing import Annotated

import typer

from incload_assets.cli.support.confirm import Yes, confirm


def erase(
    ctx: typer.Context,
    kind: Annotated[str, typer.Argument(help="The kind of person, as the tables' subjects name it: `customer`.")],
    value: Annotated[str, typer.Argument(help="The person's identifier, as the sources have it; `-`: from the input.")],
    only_plan: Annotated[bool, typer.Option("--plan", help="Only look; nothing is changed.")] = False,
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Only print the person's fingerprints, for the job in the UI.")
    ] = False,
    because: Annotated[str, typer.Option(help="The reason, for the audit.")] = "",
    yes: Yes = False,
) -> None:
    """Erase a person from all tables that have rows of this person, and search every file of the lake for a trace.

    Tables, logs, former landings and quarantine lose the person's rows; old versions are removed, so no table can be
    read as it was before. A keyed fingerprint stays, by which loads leave the person's rows out from now on. The tables
    are paused meanwhile. An erasure cannot be undone: it shows what it would find, and goes on when the identifier is
    typed once more. One that was interrupted goes on when it is repeated. The exit code is 1 if a file still has a
    trace.

    - **Writes:** tables, logs, former landings, the deny list and the audit in the lake; with `--plan` nothing.
    - **Spark:** started if it is not up; not for `--fingerprint`.
    - **Dagster's instance:** needed, to know that no run loads the tables.

    Example: `incload erase customer 4711 --plan`
    """
    import sys

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.recovery.erase import Eraser
    from incload_assets.recovery.erasure import Erasure, fingerprints_of
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    verbose: bool = ctx.obj
    value = sys.stdin.readline().rstrip("\n") if value == "-" else value
    with open_project() as project:
        tables = [*project.tables.values()]
        found = fingerprints_of(tables, kind, value, create=True)
        if fingerprint:
            for one in sorted(found):
                typer.echo(one)
            return
        with screen.apart(verbose=verbose) as console, SparkResource().session("erase") as spark:

            def made_by(work: Callable[[Eraser], Erasure]) -> Erasure:
                with screen.progress_bar(console) as progress:
                    bar = progress.add_task(f"erasing a {kind}", total=None)
                    eraser = Eraser(
                        spark,
                        Lake.of(Settings()),
                        tables,
                        kind,
                        found,
                        info=lambda step: progress.update(bar, description=step),
                        done=lambda read, of: progress.update(bar, completed=read, total=of),
                    )
                    made = work(eraser)
                    progress.remove_task(bar)
                    return made

            if only_plan:
                made = made_by(Eraser.plan)
            else:
                confirm(
                    "incload erase",
                    value,
                    f"the identifier of the {kind}",
                    lambda: made_by(Eraser.plan).lines(planned=True),
                    yes=yes,
                    console=console,
                )
                made = made_by(lambda eraser: eraser.erase(project.instance, because=because))
            for line in made.lines(planned=only_plan):
                console.print(line, markup=False)
    if not (only_plan or made.is_proven):
        raise typer.Exit(1)

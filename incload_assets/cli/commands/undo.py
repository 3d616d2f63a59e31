"""``incload undo`` and ``incload release``: loads taken back, and held partitions loaded again."""

from typing import Annotated

import typer

_PARTITIONS = typer.Option("--partitions", "-p", help="Partition keys and ranges, for example `2026-01-03`.")
_BECAUSE = typer.Option("--because", help="Why; shown wherever the partition is, and kept in the audit.")


def undo(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partitions: Annotated[str | None, _PARTITIONS] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            help="Undo this and what came after: a run, an instant, or a landing's number as in `incload history`. "
            "Without --partitions: every partition that was loaded at this instant or later.",
        ),
    ] = None,
    because: Annotated[str, _BECAUSE] = "",
    only_plan: Annotated[bool, typer.Option("--plan", help="Only say what would be undone.")] = False,
) -> None:
    """Return partitions to what they held before their last load, or before an earlier one, and hold them.

    Later loads of other partitions stay. A held partition is loaded again when its source changes, or with
    `incload release`. An undo is a load like any other: fenced, reconciled, and itself undoable. What loads replace is
    kept for the table's `undo_retention`. The exit code is 1 if a partition could not be returned.

    - **Writes:** the table and its log in the lake, and the audit. The source is not read.
    - **Spark:** started if it is not up; not for `--plan`.
    - **Dagster's instance:** needed; undoing is a run there.

    Example: `incload undo orders --partitions 2026-01-03 --because "wrong prices"`
    """
    if partitions is None and before is None:
        raise typer.BadParameter("give --partitions, --before, or both")
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.loads import run_loads
    from incload_assets.cli.support.partition_keys import chosen
    from incload_assets.cli.support.project import open_project
    from incload_assets.load.undo_plan import LAST, Undo, plan_undo
    from incload_assets.progress.request import Request
    from resources.lake import Lake
    from resources.settings import Settings

    wish = Undo(before or LAST, because=because)
    with open_project() as project:
        wanted = project.table(table)
        keys = chosen(wanted, partitions) if partitions is not None else None
        plans = plan_undo(wanted, Lake.of(Settings()), keys, wish)
        if not plans:
            screen.say(f"{wanted.name}: nothing was loaded since {before}.")
            return
        if only_plan:
            grid = screen.grid("partition")
            for name in ("holds", "rows", "returns to", "rows ", "why not"):
                grid.add_column(name)
            for plan in plans:
                grid.add_row(
                    plan.window, plan.now, str(plan.rows_now), plan.former, str(plan.rows_former), plan.refused
                )
            screen.print_grid(grid)
        else:
            request = Request(action="undo", before=wish.before, because=because)
            closed = [plan.window for plan in plans if plan.window in wanted.closed]
            if closed:
                screen.complain(str(wanted.is_closed(closed)))
            chosen_keys = [plan.window for plan in plans if plan.window not in wanted.closed]
            if chosen_keys and run_loads(project, wanted, chosen_keys, request, verbose=bool(ctx.obj)):
                raise typer.Exit(1)
        if any(plan.refused for plan in plans):
            raise typer.Exit(1)


def release(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partitions: Annotated[str, _PARTITIONS],
    because: Annotated[str, _BECAUSE] = "",
) -> None:
    """Load partitions that are held after an undo from their source as it is.

    - **Writes:** the table and its log in the lake, and the audit. The source is only read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; releasing is a run there.

    Example: `incload release orders --partitions 2026-01-03 --because "prices are right after all"`
    """
    from incload_assets.cli.support.loads import run_loads
    from incload_assets.cli.support.partition_keys import chosen
    from incload_assets.cli.support.project import open_project
    from incload_assets.progress.request import Request

    with open_project() as project:
        wanted = project.table(table)
        request = Request(action="release", because=because)
        if run_loads(project, wanted, chosen(wanted, partitions), request, verbose=bool(ctx.obj)):
            raise typer.Exit(1)

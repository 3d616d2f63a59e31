"""``incload undo``, ``release``, ``replay`` and ``fill``: partitions from their log, or loaded again."""

from collections.abc import Iterable
from typing import Annotated

import typer

from incload_assets.change_log.decisions import decided_at
from incload_assets.change_log.log import ChangeLog
from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import replay_partitions, run_loads
from incload_assets.cli.support.options import TableName, Yes
from incload_assets.cli.support.project import open_project
from incload_assets.declaration.partition_keys import chosen
from incload_assets.load.fill import refuse_unfillable, windows_to_fill
from incload_assets.load.replay import refuse_unreplayable
from incload_assets.load.undo_plan import LAST, Undo, UndoPlan, plan_undo
from incload_assets.platform.wording import several
from incload_assets.progress.request import Request

_PARTITIONS = typer.Option("--partitions", "-p", help="Partition keys and ranges, for example `2026-01-03`.")
_BECAUSE = typer.Option("--because", help="Why; shown wherever the partition is, and kept in the audit.")


def undo(
    ctx: typer.Context,
    table: TableName,
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
    yes: Yes = False,
) -> None:
    """Return partitions to what they held before a load, and hold them.

    That is their last load, or with `--before` an earlier one. Later loads of other partitions stay. A held partition
    is loaded again when its source changes, or with `incload release`. An undo is a load like any other: fenced,
    reconciled, and itself undoable. What loads replace is kept for the table's `undo_retention`. The exit code is 1 if
    a partition could not be returned.

    - **Writes:** the table and its log in the lake, and the audit. The source is not read.
    - **Spark:** started if it is not up; not for `--plan`.
    - **Dagster's instance:** needed; undoing is a run there.

    Example: `incload undo orders --partitions 2026-01-03 --because "wrong prices"`
    """
    if partitions is None and before is None:
        raise typer.BadParameter("give --partitions, --before, or both")
    wish = Undo(before or LAST, because=because)
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        keys = chosen(wanted, partitions) if partitions is not None else None
        plans = plan_undo(wanted, project.lake, keys, wish)
        if not plans:
            screen.say(f"{wanted.name}: nothing was loaded since {before}.")
            return
        if only_plan:
            _show(plans)
        else:
            request = Request(action="undo", before=wish.before, because=because)
            closed = [plan.window for plan in plans if plan.window in wanted.closed]
            if closed:
                screen.complain(str(wanted.is_closed(closed)))
            chosen_keys = [plan.window for plan in plans if plan.window not in wanted.closed]
            if chosen_keys and run_loads(project, wanted, chosen_keys, request, yes=yes).failed:
                raise typer.Exit(1)
    if any(plan.refused for plan in plans):
        raise typer.Exit(1)


def _show(plans: Iterable[UndoPlan]) -> None:
    """Prints what would be undone."""
    grid = screen.grid("partition", "holds", "rows", "returns to", "rows ", "why not")
    for plan in plans:
        grid.add_row(plan.window, plan.now, str(plan.rows_now), plan.former, str(plan.rows_former), plan.refused)
    screen.print_grid(grid)


def release(
    ctx: typer.Context,
    table: TableName,
    partitions: Annotated[str, _PARTITIONS],
    because: Annotated[str, _BECAUSE] = "",
    yes: Yes = False,
) -> None:
    """Load partitions that are held after an undo from their source as it is.

    - **Writes:** the table and its log in the lake, and the audit. The source is only read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; releasing is a run there.

    Example: `incload release orders --partitions 2026-01-03 --because "prices are right after all"`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        request = Request(action="release", because=because)
        if run_loads(project, wanted, chosen(wanted, partitions), request, yes=yes).failed:
            raise typer.Exit(1)


def replay(
    ctx: typer.Context,
    table: TableName,
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges; default: all with rejected rows."),
    ] = None,
    because: Annotated[str, typer.Option("--because", help="Why, for the audit.")] = "",
    yes: Yes = False,
) -> None:
    """Validate rejected rows again by the present contract, without reading the source.

    The table's present function is used, too. The log keeps the whole record of each rejected row, so this works also
    after its file is gone. Rows that now pass become changes of their partitions, at their old places; the others stay
    rejected. After a change of the contract this happens by itself.

    - **Writes:** the table and its log in the lake, and the audit. The source is not read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; replays are runs there, and their partitions stay green in the UI.

    Example: `incload replay orders --because "status 'returned' is allowed now"`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted, lake = project.table(table), project.lake
        refuse_unreplayable(wanted)
        records, decided = ChangeLog(wanted, lake).records(), decided_at(lake, wanted)
        among = records if partitions is None else chosen(wanted, partitions)
        keys = [key for key in among if key in records and (records[key].rejected or key in decided)]
        if not keys:
            screen.say(f"{wanted.name}: no rejected rows.")
            return
        replay_partitions(project, wanted, keys, because, yes=yes)


def fill(
    ctx: typer.Context,
    table: TableName,
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges; default: all with rescued values."),
    ] = None,
    because: Annotated[str, typer.Option("--because", help="Why; kept in the audit.")] = "",
    yes: Yes = False,
) -> None:
    """Fill columns that the contract declares now from fields that the log rescued before.

    The source is not read, so this works also after it has lost the data. The rows become what a load of the same
    records would make of them; values that do not fit go to quarantine. Partitions whose rows never had the field are
    counted, and left as they are.

    - **Writes:** the table and its log in the lake, and the audit. The source is not read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; fills are runs there, and their partitions stay green in the UI.

    Example: `incload fill orders`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted, lake = project.table(table), project.lake
        refuse_unfillable(wanted)
        found, records = windows_to_fill(wanted, lake), ChangeLog(wanted, lake).records()
        among = [*records] if partitions is None else chosen(wanted, partitions)
        keys = [key for key in found if key in among]
        names = ", ".join(sorted({name for key in keys for name in found[key]}))
        others = len([key for key in among if key in records and key not in found])
        if not keys:
            screen.say(f"{wanted.name}: no rescued field that a column lacks.")
            return
        have = "has" if len(keys) == 1 else "have"
        rest = f"{others} have none to fill" if others != 1 else "1 has none to fill"
        screen.say(f"{wanted.name}: {several(len(keys), 'partition')} {have} rescued values of {names}; {rest}")
        if run_loads(project, wanted, keys, Request(action="fill", because=because), yes=yes).failed:
            raise typer.Exit(1)

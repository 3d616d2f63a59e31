"""``incload accept`` and ``discard``: decisions about rejected rows."""

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from incload_assets.change_log.decisions import Decision
from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import ask_if_many, replay_partitions
from incload_assets.cli.support.options import TableName, Yes, confirm
from incload_assets.cli.support.project import open_project
from incload_assets.declaration.partition_keys import chosen
from incload_assets.platform.wording import several, some
from incload_assets.quarantine.decide import decide_where, take_back

_BECAUSE = typer.Option("--because", help="Why, for the audit.")
_PARTITIONS = typer.Option("--partitions", "-p", help="Partition keys and ranges; default: all with rejected rows.")
_REASON = typer.Option("--reason", help="Only rows with a reason that contains this.")
_UNDO = typer.Option("--undo", help="Undo the decision that has this number in the audit.")


def accept(
    ctx: typer.Context,
    table: TableName,
    because: Annotated[str, _BECAUSE],
    partitions: Annotated[str | None, _PARTITIONS] = None,
    reason: Annotated[str, _REASON] = "",
    undo: Annotated[int | None, _UNDO] = None,
    yes: Yes = False,
) -> None:
    """Accept rejected rows although they break checks of the contract, and bring them into the table.

    Only checks of values are waived. A row with a value of another type, without a value that it needs, or with a
    unique value of another row is refused, and then nothing is done. The partitions are replayed. The decision holds
    after they are loaded again, as long as the file has the same record. `--undo` takes it back. If such rows are right
    in general, correct the contract instead.

    - **Writes:** the lake's table `_decisions`, the table and its log, and the audit.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; the replays are runs there.

    Example: `incload accept orders --reason "amount:" --because "a refund, as an exception"`
    """
    _decide(ctx, "accept", table, because, partitions, reason, undo, yes=yes)


def discard(
    ctx: typer.Context,
    table: TableName,
    because: Annotated[str, _BECAUSE],
    partitions: Annotated[str | None, _PARTITIONS] = None,
    reason: Annotated[str, _REASON] = "",
    undo: Annotated[int | None, _UNDO] = None,
    yes: Yes = False,
) -> None:
    """Say that rejected rows need no correction: they stay in the log, and are no longer open.

    It shows how many rows match in which partitions, and goes on when the table's name is typed.

    The decision holds after their partitions are loaded again, as long as the file has the same record. `--undo` takes
    a discard back. If a row is right as it is, `incload accept` it, or correct the contract.

    - **Writes:** the lake's table `_decisions`, and the audit. Table and log do not change.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload discard orders --reason "amount:" --because "test orders of the supplier"`
    """
    _decide(ctx, "discard", table, because, partitions, reason, undo, yes=yes)


def _decide(
    ctx: typer.Context,
    kind: Literal["accept", "discard"],
    table: str,
    because: str,
    partitions: str | None,
    reason: str,
    undo: int | None,
    *,
    yes: bool,
) -> None:

    with open_project(verbose=ctx.obj) as project:
        lake, wanted = project.lake, project.table(table)
        if undo is not None:
            entry = take_back(wanted, lake, kind, undo, because)
            screen.say(f"{wanted.name}: {several(int(entry.details['rows']), 'row')} open again.")
        else:
            only = None if partitions is None else chosen(wanted, partitions)
            with screen.apart(verbose=project.verbose) as console, project.spark(wanted.name) as spark:

                def ask(found: Sequence[Decision]) -> None:
                    keys = sorted({one.window for one in found})
                    if kind == "accept":
                        ask_if_many(project, wanted, keys, "replay", yes=yes, console=console)
                        return
                    rows = f"{several(len(found), 'rejected row')} of {several(len(keys), 'partition')} ({some(keys)})"
                    line = f"{wanted.name}: {rows} will no longer be open, without a correction"
                    confirm(
                        "incload discard", wanted.name, "the table's name", lambda: [line], yes=yes, console=console
                    )

                decided, count = decide_where(spark, wanted, lake, kind, because, only=only, text=reason, confirmed=ask)
            if decided is None:
                screen.say(f"{wanted.name}: no open rejected row matches.")
                return
            entry = decided
            screen.say(_undoable(wanted.name, kind, f"{kind}ed {several(count, 'row')}", entry.number))
        if kind == "accept":
            replay_partitions(project, wanted, entry.partitions, because, yes=True)


def _undoable(name: str, kind: str, done: str, number: int) -> str:
    return f"{name}: {done}. To take it back: incload {kind} {name} --undo {number} --because WHY"

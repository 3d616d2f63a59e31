"""The seven failure modes, injected for real into a scratch table: which alert shows each, and its runbook's remedy.

A fault is injected, its alert is awaited, the remedy is applied, and it is over when the table is right and the alert
is resolved.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from incload_assets.change_log.log import ChangeLog
from incload_assets.history.row_trace import RowTrace, trace_row
from incload_assets.platform.lake_rows import rows_where
from tests.drill.scratch import Scratch, record

S = TypeVar("S", bound=Scratch, contravariant=True)
LATE = 20
"""The number of rows that come late: enough to be told from the few that always do."""
_SECONDS = 120.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True, kw_only=True)
class Fault(Generic[S]):
    """A failure mode, for scratch tables of a kind.

    Args:
        mode: The failure mode, ``F1`` to ``F7``.
        runbook: The anchor of its section of the runbooks.
        about: What is done, in a sentence without its full stop.
        alerts: The names of the alerts that show it; one of them is enough.
        inject: Does it.
        remedy: Does what the runbook says.
        is_there: Whether the table is still wrong, or lacks what was delivered, by reading it.
        backlog: The number of changes that the remedy loads, where its pace counts; None: it does not.
    """

    mode: str
    runbook: str
    about: str
    alerts: Sequence[str]
    inject: Callable[[S], None]
    remedy: Callable[[S], None]
    is_there: Callable[[S], bool]
    backlog: Callable[[S], int] | None = None


def _trace(scratch: Scratch, id: str) -> RowTrace:
    return trace_row(scratch.table, scratch.lake, {"id": id}, values=True)


def _rows(scratch: Scratch, id: str) -> pa.Table:
    return rows_where(_table(scratch), {"id": [id]})


def _table(scratch: Scratch) -> DeltaTable:
    delta = scratch.lake.delta(scratch.lake.table_uri(scratch.table.key.path))
    assert delta is not None
    return delta


def _load(scratch: Scratch, *windows: str) -> None:
    if not scratch.load(*windows):
        raise AssertionError(f"the remedy failed: {', '.join(windows)} could not be loaded")


def _windows_of(scratch: Scratch, id: str) -> list[str]:
    """The windows with changes of a row, as the runbooks find them."""
    return sorted({change.window for change in _trace(scratch, id).changes})


def _remove_behind(scratch: Scratch) -> None:
    _table(scratch).delete("id = 'first 3'")


def _write_again(scratch: Scratch) -> None:
    write_deltalake(_table(scratch), _rows(scratch, "second 3"), mode="append")


def _delete_and_load(scratch: Scratch) -> None:
    windows = _windows_of(scratch, "second 3")
    _table(scratch).delete("id = 'second 3'")
    _load(scratch, *windows)


def _change_type(scratch: Scratch) -> None:
    scratch.deliver(scratch.windows[2], "b", [{"id": f"broken {n}", "name": "x", "seq": "soon"} for n in range(9)])
    scratch.load(scratch.windows[2])


def _correct_type(scratch: Scratch) -> None:
    scratch.deliver(scratch.windows[2], "b", [record(f"broken {n}", n) for n in range(9)])
    _load(scratch, scratch.windows[2])


def _deliver_late(scratch: Scratch) -> None:
    scratch.deliver(scratch.windows[0], "late", [record("late", 1), *(record(f"late {n}", 1) for n in range(LATE))])
    _load(scratch, scratch.windows[0])


def _restore(scratch: Scratch) -> None:
    scratch.deliver(scratch.windows[1], "c", [record("restored", 2)])
    _load(scratch, scratch.windows[1])
    delta = _table(scratch)
    version = delta.version()
    while version > 0 and _rows(scratch, "restored").num_rows:
        version -= 1
        _table(scratch).restore(version)


def _kill(scratch: Scratch) -> None:
    """Kills a load after its ingestion; if its merge was faster, there is another try with another row."""
    for attempt in range(5):
        name = f"try {attempt}"
        scratch.deliver(scratch.windows[1], "killed", [record("killed", 10 + attempt, name)])
        kill_after_ingestion(scratch, scratch.windows[1])
        if _trace(scratch, "killed").agrees is False:
            return
    raise AssertionError("no load could be killed between its ingestion and its merge")


def kill_after_ingestion(scratch: Scratch, window: str) -> None:
    """Starts a load of a window and kills its process as soon as the log has the ingestion.

    Raises:
        AssertionError: Nothing was ingested.
    """
    uri = ChangeLog(scratch.table, scratch.lake).uri
    record = ChangeLog(scratch.table, scratch.lake).record(window)
    before = record.landing if record else 0
    version = scratch.lake.version(uri)
    deadline = time.monotonic() + _SECONDS
    with scratch.start(window) as process:
        try:
            while time.monotonic() < deadline:
                now = scratch.lake.version(uri)
                if now != version:
                    version = now
                    landed = ChangeLog(scratch.table, scratch.lake).record(window)
                    if landed is not None and landed.landing > before:
                        return
                if process.poll() is not None:
                    return  # it was faster
                time.sleep(_POLL_SECONDS)
            raise AssertionError(f"{window} was not ingested within {_SECONDS:.0f} s")
        finally:
            process.kill()


def _date_ahead(scratch: Scratch) -> None:
    ahead = int((datetime.now(UTC) + timedelta(days=365)).timestamp())
    scratch.deliver(scratch.windows[2], "clock", [record("ahead", ahead, "of a wrong clock")])
    _load(scratch, scratch.windows[2])


def _correct_date(scratch: Scratch) -> None:
    scratch.deliver(scratch.windows[2], "clock", [record("ahead", int(time.time()), "corrected")])
    _load(scratch, scratch.windows[2])


def _is_ahead(scratch: Scratch) -> bool:
    return any(seq.timestamp() > time.time() for seq in _rows(scratch, "ahead")["seq"].to_pylist())


FAULTS: tuple[Fault[Scratch], ...] = (
    Fault(
        mode="F1",
        runbook="missed-updates",
        about="another writer deletes a row of the table",
        alerts=("IncloadRowsDiffer",),
        inject=_remove_behind,
        remedy=lambda scratch: _load(scratch, *_windows_of(scratch, "first 3")),
        is_there=lambda scratch: _trace(scratch, "first 3").agrees is not True,
    ),
    Fault(
        mode="F2",
        runbook="duplicate-writes",
        about="another writer appends a row of the table again",
        alerts=("IncloadDuplicates",),
        inject=_write_again,
        remedy=_delete_and_load,
        is_there=lambda scratch: _rows(scratch, "second 3").num_rows != 1,
    ),
    Fault(
        mode="F3",
        runbook="schema-break",
        about="a file has text in a column of numbers",
        alerts=("IncloadSchemaBreak", "IncloadQuarantine"),
        inject=_change_type,
        remedy=_correct_type,
        is_there=lambda scratch: _rows(scratch, "broken 8").num_rows != 1,
    ),
    Fault(
        mode="F4",
        runbook="late-arrivals",
        about="rows arrive for the oldest window, and its sensor has it loaded again",
        alerts=("IncloadLateArrivals",),
        inject=_deliver_late,
        remedy=lambda scratch: _load(scratch, scratch.windows[0]),
        is_there=lambda scratch: _rows(scratch, "late").num_rows != 1,
    ),
    Fault(
        mode="F5",
        runbook="checkpoint-loss",
        about="the table is restored to a version before its last load, so that the checkpoint is ahead of it",
        alerts=("IncloadCheckpointLoss",),
        inject=_restore,
        remedy=lambda scratch: _load(scratch, *scratch.windows),
        is_there=lambda scratch: _rows(scratch, "restored").num_rows != 1,
    ),
    Fault(
        mode="F5",
        runbook="checkpoint-loss",
        about="Dagster's storage forgets all loads of the table",
        alerts=("IncloadCheckpointLoss",),
        inject=lambda scratch: scratch.forget(),
        remedy=lambda scratch: scratch.rebuild(),
        is_there=lambda scratch: scratch.forgotten(),
    ),
    Fault(
        mode="F6",
        runbook="partial-commit",
        about="a load is killed between its ingestion and its merge",
        alerts=("IncloadRowsDiffer",),
        inject=_kill,
        remedy=lambda scratch: _load(scratch, scratch.windows[1]),
        is_there=lambda scratch: _trace(scratch, "killed").agrees is not True,
    ),
    Fault(
        mode="F7",
        runbook="clock-skew",
        about="a row is dated a year ahead, so that no later change of its key can win",
        alerts=("IncloadClockSkew",),
        inject=_date_ahead,
        remedy=_correct_date,
        is_there=_is_ahead,
    ),
)
"""What is injected, in the order of the failure modes."""

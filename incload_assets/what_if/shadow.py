"""A shadow of a table: the same log, folded by the code of this working tree into a table beside it.

The shadow has a lake of its own, the folder ``_shadow`` of the lake, with a log and a table, and is written by the
steps of ordinary loads. The rows of its log are

- the rows of the table's log, for windows that the same code validated, and for base rows;
- read from the source again and validated, for windows that other code validated: the log keeps what a source delivered
  of rejected rows only, so the typed columns of accepted rows cannot be derived again;
- the rows of the table's log all the same, if the source no longer holds what it held for a window. The report names
  these windows.

Table and log are not touched.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext, Phases
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import BASE, WindowRecord, base_keys, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, now
from incload_assets.ingest.facts import facts_of
from incload_assets.ingest.ingest import ingest
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.load.apply import apply_changes
from incload_assets.load.base_rows import base_window
from incload_assets.load.tables import adapt_tables
from incload_assets.platform.errors import IncrementalLoadError, SourceChanged
from incload_assets.platform.lake import SHADOW_FOLDER, Lake
from incload_assets.platform.wording import several, some
from incload_assets.progress.progress import source_state
from incload_assets.what_if.comparison import Comparison, compare
from incload_assets.writes.merge_into import app_id

WINDOWS_AT_ONCE = 200
"""Most windows that are folded together."""


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """The result of a shadow, compared with a version of the table.

    Args:
        same_code: Windows that this code validated already, and base rows: their rows are the log's.
        validated: Windows that were read from the source again.
        as_logged: Why a window that other code validated was not read again, by partition key.
        rejected: Rejected rows of the windows that were read again: before, and now.
    """

    uri: str
    table_version: int
    log_version: int
    same_code: int
    validated: Sequence[str]
    as_logged: Mapping[str, str]
    rejected: tuple[int, int]
    comparison: Comparison

    def lines(self, table_name: str) -> Iterator[str]:
        """The result for people, the counts first."""
        found, (there, here) = self.comparison, self.comparison.rows
        if found.equal:
            yield f"{table_name}: table and shadow are equal, {several(there, 'row')}"
        else:
            yield (
                f"{table_name}: {several(found.only_table, 'row')} only in the table, "
                f"{found.only_shadow:,} only in the shadow, "
                f"{found.different:,} different; {several(there, 'row')} in the table, {here:,} in the shadow"
            )
        if found.by_column:
            yield "  rows that differ by column: " + ", ".join(f"{n} {count:,}" for n, count in found.by_column.items())
        for where, names in zip(("table", "shadow"), found.columns, strict=True):
            if names:
                yield f"  columns only in the {where}: {', '.join(names)}"
        for sample in found.samples:
            yield f"  {sample}"
        yield f"  compared version {self.table_version} of the table, version {self.log_version} of its log"
        before, now_rejected = self.rejected
        yield (
            f"  validated again from the source: {several(len(self.validated), 'window')} ({before:,} rows rejected "
            f"before, {now_rejected:,} now); validated by this code already: {several(self.same_code, 'window')}"
        )
        for why in dict.fromkeys(self.as_logged.values()):
            keys = sorted(key for key, reason in self.as_logged.items() if reason == why)
            yield f"  not validated again, as in the log: {some(keys, 3)}: {why}"


@dataclass
class _Landed:
    """The windows of the shadow's log."""

    validated: list[str] = field(default_factory=list)
    as_logged: dict[str, str] = field(default_factory=dict)
    rejected: int = 0


def compare_again(load: LoadContext, made: Shadow) -> Comparison:
    """Compares the table as it is now with a shadow that was made before."""
    table = load.lake.delta(load.uri)
    assert table is not None  # as the shadow was compared with it
    return compare(load, table.version(), made.uri)


def _folder(load: LoadContext) -> str:
    """The folder of the lake with the table's shadow."""
    return f"{SHADOW_FOLDER}/{load.table.identifier}"


def drop(load: LoadContext) -> bool:
    """Removes the shadow of a table; returns whether there was one."""
    return load.lake.remove(_folder(load))


def shadow(load: LoadContext) -> Shadow:
    """Makes the shadow again, and compares it with the table, which is declared as this working tree has it.

    Raises:
        IncrementalLoadError: There is no table or log; or an error of a step of the shadow's loads.
    """
    table, lake = load.table, load.lake
    version = lake.version(load.uri)  # before the log, which then has everything that was merged
    log = lake.delta(load.log.uri)
    if version is None or log is None:
        raise IncrementalLoadError(
            f"{table.name}: there is no table with a log to compare with",
            remedy=f"load it first: incload load {table.name} --all-missing",
        )
    drop(load)
    # a path of its own for each shadow: Spark remembers tables by their path, and would miss that one was removed
    beside = replace(load, lake=Lake(f"{lake.root}/{_folder(load)}/{uuid4().hex}").followed(), phases=Phases())
    adapt_tables(beside)
    records = window_records_of(log)
    windows = table.known_windows(key for key in records if not key.startswith(BASE))
    base = [base_window(key) for key in base_keys(log)]
    landed = _land(load, beside, log.version(), windows, base, records)
    _fold(beside, [*base, *windows])
    return Shadow(
        uri=beside.uri,
        table_version=version,
        log_version=log.version(),
        same_code=len(base) + len(windows) - len(landed.validated) - len(landed.as_logged),
        validated=landed.validated,
        as_logged=landed.as_logged,
        rejected=(sum(records[key].rejected for key in landed.validated), landed.rejected),
        comparison=compare(load, version, beside.uri),
    )


def _land(
    load: LoadContext,
    beside: LoadContext,
    log_version: int,
    windows: Sequence[Window],
    base: Sequence[Window],
    records: Mapping[str, WindowRecord],
) -> _Landed:
    """Writes the shadow's log."""
    done, table = _Landed(), load.table
    changed = [window for window in windows if records[window.key].code_version != table.code_version]
    positions = _positions(load, changed, records, done)
    for window in changed:
        if (position := positions.get(window.key)) is None:
            continue
        try:
            done.rejected += _validate(beside, window, position)
        except (SourceChanged, FileNotFoundError) as error:
            done.as_logged[window.key] = f"the source changed while it was read ({type(error).__name__})"
            continue
        done.validated.append(window.key)
        load.info(f"{table.name} {window.key}: validated again")
    rest = [window.key for window in (*base, *windows) if window.key not in done.validated]
    for start in range(0, len(rest), WINDOWS_AT_ONCE):
        _copy(load, beside, log_version, rest[start : start + WINDOWS_AT_ONCE], records)
    return done


def _positions(
    load: LoadContext, changed: Sequence[Window], records: Mapping[str, WindowRecord], done: _Landed
) -> dict[str, Position]:
    """The source's positions of windows that it still holds as they were ingested."""
    if not changed:
        return {}
    try:
        now_there = source_state(load.table, load.lake, now()).positions
    except IncrementalLoadError as error:
        done.as_logged.update((window.key, f"the source does not answer: {error.problem}") for window in changed)
        return {}
    found = {}
    for window in changed:
        position = now_there.get(window.key)
        if position is None:
            closed = window.key in load.table.closed
            done.as_logged[window.key] = "it is closed" if closed else "the source no longer has it"
        elif position.fingerprint != records[window.key].fingerprint:
            done.as_logged[window.key] = "the source holds something else now; a load would read that"
        else:
            found[window.key] = position
    return found


def _validate(beside: LoadContext, window: Window, position: Position) -> int:
    """Reads and validates a window again; returns the number of rejected rows."""
    ingest(beside, Ingestion(window, position, None, 0, settled=False), guard=None)
    return beside.log.records(only=[window.key])[window.key].rejected


def _copy(
    load: LoadContext, beside: LoadContext, log_version: int, keys: Collection[str], records: Mapping[str, WindowRecord]
) -> None:
    """Copies windows of the table's log."""
    rows = load.log.read(load.spark, log_version, keys).filter(F.col("_kind") != CONTROL)
    with Staged(beside.log, beside.spark, list(keys)) as staged:
        known = [name for name in beside.log.schema.names if name in rows.columns]
        staged.write(rows, known)
        facts = facts_of(staged.read(), beside.table, [base_window(key) for key in keys])
        placed = {
            key: replace(
                records[key],
                landing=1,
                partitions=facts[key].partitions,
                buckets=facts[key].buckets,
                first_sequence=facts[key].first_sequence,
                replaced=facts[key].replaced,
            )
            for key in keys
        }
        _commit(beside, staged, placed)


def _commit(beside: LoadContext, staged: Staged, records: Mapping[str, WindowRecord]) -> None:
    name = f"{beside.table.name}/shadow"
    number = (beside.lake.transaction_version(beside.log.uri, name) or 0) + 1
    if not commit(beside, staged, records, name, number, note=f"shadow of {', '.join(sorted(records)[:3])}"):
        raise IncrementalLoadError(
            f"{beside.table.name}: another shadow of the table is being made",
            rule="a table has one shadow",
            remedy="try again when the other has ended",
        )


def _fold(beside: LoadContext, windows: Sequence[Window]) -> None:
    """Folds the shadow's log into its table, and proves it."""
    step = WINDOWS_AT_ONCE if beside.table.in_ranges else 1
    for start in range(0, len(windows), step):
        chunk = tuple(windows[start : start + step])
        together = len(chunk) > 1
        name = f"{beside.table.name}/shadow {start}" if together else app_id(beside.table, chunk[0])
        apply_changes(replace(beside, phases=Phases()), chunk, name, of_range=together)

"""The change feed of a table, read from Delta without Spark: which rows each commit inserted, updated and deleted."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.declaration.write import FEED_COLUMNS
from incload_assets.delta.tables import has_change_feed
from incload_assets.platform.errors import IncrementalLoadError, LakeUnreadable, SourceMissing
from incload_assets.platform.lake import Lake
from incload_assets.progress.pause import parse_since
from incload_assets.writes.commit_notes import noted

ORDER = ("update_preimage", "delete", "update_postimage", "insert")
"""The kinds of a feed's rows, in the order in which a reader applies the rows of a commit."""
_KIND, _VERSION, _AT = FEED_COLUMNS
_KEEPS_PROPERTIES = {"MERGE", "DELETE", "UPDATE", "OPTIMIZE", "VACUUM START", "VACUUM END"}
"""Operations of Delta's history that leave a table's properties as they are."""
_RETENTION = {
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 1 week",
}
"""How long Delta keeps commits, and files that no version uses any longer, with their defaults."""
SHORTEST_RUN = 8
"""Signs of a run's identifier that name it, as many as tables of runs show: ``2d`` is two days, and may begin a run."""
_ESCAPED = "%25"
"""An escaped percent sign: deltalake escapes the name of a folder of a feed that Spark has escaped before."""
_REMEDY = "a reader that is behind reads the whole table again, see incload docs tables"


@dataclass(frozen=True, kw_only=True)
class FeedCommit:
    """A commit that changed rows, with how many; ``windows`` and ``runs`` are of the merge that it was."""

    version: int
    at: datetime
    inserted: int
    updated: int
    deleted: int
    windows: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FeedRow:
    """A row that a commit changed: one of the kinds of :data:`ORDER`, and its values; personal ones are masked."""

    version: int
    at: datetime
    change: str
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """The changes of the versions ``since`` to ``until`` of a table, oldest first; ``rows`` are the first ones only."""

    table: str
    since: int
    until: int
    commits: Sequence[FeedCommit]
    rows: Sequence[FeedRow]

    @property
    def counts(self) -> tuple[int, int, int]:
        """The rows inserted, updated and deleted by all commits."""
        return (
            sum(one.inserted for one in self.commits),
            sum(one.updated for one in self.commits),
            sum(one.deleted for one in self.commits),
        )


def feed_of(table: Table, lake: Lake, since: str, *, limit: int) -> Feed:
    """The changes by a table's commits, from a version, a time, or the first commit of a run on.

    Args:
        since: A version; an instant or a duration as :func:`~incload_assets.progress.pause.parse_since` reads them; or
            the identifier of a run, or at least its first eight signs.
        limit: The greatest number of rows.

    Raises:
        SourceMissing: There is no table.
        IncrementalLoadError: It has no feed; or the feed does not reach back so far, or names no such run.
    """
    delta = lake.delta(lake.table_uri(table.key.path))
    if delta is None:
        raise SourceMissing(
            f"{table.name}: there is no table yet",
            rule="a feed has the commits of a table",
            remedy=f"incload load {table.name}",
        )
    if not has_change_feed(delta):
        raise IncrementalLoadError(
            f"{table.name} has no change feed",
            rule="Delta writes down which rows a commit changed only while the feed is on",
            remedy=f"write {type(table.write).__name__}(change_feed=True): the next load turns it on",
        )
    commits = {int(commit["version"]): commit for commit in delta.history()}
    first = _since(table, delta, commits, since)
    if first > delta.version():
        return Feed(table=table.name, since=first, until=delta.version(), commits=(), rows=())
    _check_kept(table, lake, delta, commits, first)
    counts: Counter[tuple[int, str]] = Counter()
    for batch in _batches(table, delta, first, delta.version(), [_KIND, _VERSION]):
        grouped = pa.Table.from_batches([batch]).group_by([_VERSION, _KIND]).aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            counts[row[_VERSION], row[_KIND]] += row["count_all"]
    changed = [_commit(commits[version], counts) for version in sorted({version for version, _ in counts})]
    return Feed(
        table=table.name,
        since=first,
        until=delta.version(),
        commits=changed,
        rows=[*_rows(table, delta, changed, limit)],
    )


def _since(table: Table, delta: DeltaTable, commits: Mapping[int, Mapping[str, Any]], text: str) -> int:
    """The version that a feed is to begin with."""
    newest = delta.version()
    is_number = text.isascii() and text.isdigit()
    if is_number and int(text) <= newest + 1:  # a reader that has all versions asks for the next one
        return int(text)
    runs = {version: _note(commit)[1] for version, commit in commits.items()}
    of_run = [version for version, them in runs.items() if any(run.startswith(text) for run in them)]
    if of_run and len(text) >= SHORTEST_RUN:
        return min(of_run)
    if is_number:
        raise IncrementalLoadError(
            f"{table.name} has no version {text} and no commit of such a run; its newest version is {newest}",
            rule="versions count up from 0; a table that was made again begins again",
            remedy=f"incload changes {table.name} --since {newest}, or read the whole table again",
        )
    try:
        instant = parse_since(text, now())
    except IncrementalLoadError as error:
        raise IncrementalLoadError(
            f"{table.name}: {text!r} is no version, no time and no duration, and no run that the kept commits name",
            rule=f"{error.rule}; a run is named by the first {SHORTEST_RUN} signs of its identifier, and a load that "
            "changed nothing makes no commit",
            remedy=f"see incload history {table.name} for its runs, or write for example --since 2h",
        ) from None
    later = [version for version, commit in commits.items() if _at(commit) >= instant]
    if later and 0 not in commits and min(later) == min(commits):
        return -1  # it may be older than all that is kept
    return min(later, default=newest + 1)


def _check_kept(
    table: Table, lake: Lake, delta: DeltaTable, commits: Mapping[int, Mapping[str, Any]], first: int
) -> None:
    """Refuses a version that the kept commits, or the feed, do not reach back to."""
    kept = min(commits)
    if first < kept:
        raise _expired(
            table, delta, f"the changes before version {kept}, of {_at(commits[kept]):%Y-%m-%d %H:%M}Z", kept
        )
    begins = delta.version()
    for version in sorted(commits, reverse=True):
        keeps = commits[version].get("operation") in _KEEPS_PROPERTIES
        if not keeps and not _was_fed(lake, delta.table_uri, version):
            break
        begins = version
    if first < begins:
        raise IncrementalLoadError(
            f"{table.name}: its change feed begins with version {begins}, of {_at(commits[begins]):%Y-%m-%d %H:%M}Z",
            rule="a reader takes the table as it was at a version, and follows it from the next one on",
            remedy=f"incload changes {table.name} --since {begins}",
        )


def _was_fed(lake: Lake, uri: str, version: int) -> bool:
    try:
        delta = lake.delta(uri, version)
    except LakeUnreadable:
        return False
    return delta is not None and has_change_feed(delta)


def _expired(table: Table, delta: DeltaTable, what: str, kept: int | None = None) -> IncrementalLoadError:
    properties = {**_RETENTION, **delta.metadata().configuration}
    commits, files = (properties[name].removeprefix("interval ") for name in _RETENTION)
    return IncrementalLoadError(
        f"{table.name}: {what} are no longer kept",
        rule=f"Delta keeps commits for {commits} (delta.logRetentionDuration) and files that no version uses any "
        f"longer for {files} (delta.deletedFileRetentionDuration); an erasure removes both at once",
        remedy=f"incload changes {table.name} --since {'a later version' if kept is None else kept}; {_REMEDY}",
    )


def _batches(
    table: Table, delta: DeltaTable, first: int, last: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    try:
        reader = delta.load_cdf(starting_version=first, ending_version=last, columns=[*columns])
        yield from pa.RecordBatchReader.from_stream(reader)
    except Exception as error:  # deltalake's own, without a class that tells what it is
        if "not found" not in str(error):
            raise
        if _ESCAPED in str(error):
            raise IncrementalLoadError(
                f"{table.name}: the files of its change feed are in partitions whose values have a sign such as ':'",
                rule="deltalake finds no file of a feed in such a partition; Spark does",
                remedy=f"read it in Spark, with the options readChangeFeed and startingVersion={first}",
            ) from None
        raise _expired(table, delta, f"files of the versions {first} to {last}") from None


def _commit(commit: Mapping[str, Any], counts: Mapping[tuple[int, str], int]) -> FeedCommit:
    version = int(commit["version"])
    windows, runs = _note(commit)
    return FeedCommit(
        version=version,
        at=_at(commit),
        inserted=counts.get((version, "insert"), 0),
        updated=counts.get((version, "update_postimage"), 0),
        deleted=counts.get((version, "delete"), 0),
        windows=windows,
        runs=runs,
    )


def _rows(table: Table, delta: DeltaTable, commits: Sequence[FeedCommit], limit: int) -> Iterator[FeedRow]:
    """The first rows of commits, as their readers apply them."""
    names = [name for name in table.schema.names if name in {field.name for field in delta.schema().fields}]
    left = limit
    for commit in commits:
        rows: list[dict[str, Any]] = []
        for batch in _batches(table, delta, commit.version, commit.version, [*names, _KIND]) if left else ():
            rows += batch.slice(0, left - len(rows)).to_pylist()
            if len(rows) == left:
                break
        left -= len(rows)
        for row in sorted(rows, key=lambda row: (_key(row, table.identity or names), ORDER.index(row[_KIND]))):
            values = {
                name: MASK if name in table.contract.personal and row[name] is not None else row[name] for name in names
            }
            yield FeedRow(version=commit.version, at=commit.at, change=row[_KIND], values=values)


def _key(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return json.dumps([row[name] for name in names], default=str)


def _note(commit: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    return noted(str(commit.get("userMetadata") or "")) or ("", ())


def _at(commit: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(int(commit.get("timestamp", 0)) / 1000, UTC)

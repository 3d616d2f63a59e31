"""What the conformance suite has to know of a write strategy."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from incload_assets.declaration.changes import Changes
from incload_assets.declaration.write import Write
from incload_assets.trial.literal_source import Record
from tests.support.change_streams import change_streams
from tests.support.feeds import Follower
from tests.support.sampling import NIGHT
from tests.support.tables import DAYS, Item, Loaded, day, item

EXAMPLES = int(os.environ.get("INCLOAD_TEST_EXAMPLES", "10" if NIGHT else "1"))
"""Random examples of each case."""
SEED = int(os.environ.get("INCLOAD_TEST_SEED", "0"))
"""Of all that is random in a test run."""
WINDOWS = 4
CROWD = 15

Content = dict[str, list[Record]]
"""What the source holds: records by partition key."""

Order = Callable[[Record], Any]
"""Sorts the records of one key from old to new: sequence (NULL first), upsert before delete, content hash."""


@dataclass(frozen=True)
class Case:
    """One declaration, and what its table has to hold.

    Args:
        name: For the test's name.
        write: The write strategy.
        expected: The oracle: from what the loaded windows hold, and the order of records, to the table's rows as
            tuples of ``columns``.
        columns: Of the table, in the order of those tuples; empty for all of them.
        contract: As declared.
        changes: As declared.
        contents: Random content of the windows.
        partitions_def: As declared.
        rows: The table's rows, for a table in which equal rows may stand; ``columns`` is then unused.
        daily: Whether every run of the suite has the case; otherwise a night run.
    """

    name: str
    write: Write
    expected: Callable[[Mapping[str, Sequence[Record]], Order], set[tuple[Any, ...]]]
    columns: tuple[str, ...] = ()
    contract: type = Item
    changes: Changes = field(default=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"))
    contents: st.SearchStrategy[Content] | None = None
    partitions_def: Any = DAYS
    rows: Callable[[Loaded], set[tuple[Any, ...]]] | None = None
    daily: bool = True

    @property
    def declared(self) -> dict[str, Any]:
        """What :func:`tests.support.tables.make` takes."""
        return {name: getattr(self, name) for name in ("contract", "write", "changes", "partitions_def")}

    def held(self, table: Loaded) -> set[tuple[Any, ...]]:
        """What the table holds, which a reader of its change feed has, too."""
        if self.write.change_feed:
            Follower(table.uri).check()
        return self.rows(table) if self.rows else table.rows(*self.columns)

    def right(
        self, table: Loaded, loaded: Mapping[str, Sequence[Record]], hashes: "Hashes | None" = None
    ) -> set[tuple[Any, ...]]:
        """What the oracle says of loaded windows; ``hashes`` as :func:`order_of` takes them."""
        return self.expected(loaded, order_of(table, hashes))


def crowds(**options: Any) -> st.SearchStrategy[Content]:
    """Windows 1 to 4 that hold a crowd of independent streams, told apart by their keys.

    A load costs seconds, an example many loads: so each example carries many streams through the same loads.

    Args:
        options: Of :func:`tests.support.change_streams.change_streams`.
    """

    def spread(crowd: list[list[list[dict[str, Any]]]]) -> Content:
        content: Content = {day(n): [] for n in range(1, WINDOWS + 1)}
        for number, stream in enumerate(crowd):
            for n, batch in enumerate(stream, 1):
                content[day(n)] += [item(f"{number}/{c['id']}", c["value"], c["at"], c["op"]) for c in batch]
        return content

    streams = change_streams(max_batches=WINDOWS, **options)
    return st.lists(streams, min_size=CROWD, max_size=CROWD).map(spread)


def every(content: Mapping[str, Sequence[Record]]) -> list[Record]:
    """The records of all windows."""
    return [record for records in content.values() for record in records]


def hashed(records: Iterable[Record], order: Order) -> list[dict[str, Any]]:
    """Records as the oracle takes them: with a number as sequence, and their content hash."""
    return [{**r, "seq": r["seq"] and int(r["seq"]), "hash": order(r)[-1]} for r in records]


def is_delete(row: Mapping[str, Any]) -> bool:
    """Whether a change deletes."""
    return bool(row["op"] == "d")


def hash_of(row: Mapping[str, Any]) -> Any:
    """The content hash of a change."""
    return row["hash"]


Hashes = dict[tuple[str, ...], int]
"""By the values of a row, its content hash, as the log has it."""


def hashes_of(table: Loaded) -> Hashes:
    """Of everything that the log holds."""
    names = table.table.columns
    known = [row for kind in ("upsert", "moved", "delete") for row in table.log(kind, *names, "_hash")]
    return {tuple(map(str, row[:-1])): row[-1] for row in known}


def order_of(table: Loaded, hashes: Hashes | None = None) -> Order:
    """The order of what a table has loaded. Ties are decided by a content hash: any would do.

    Args:
        table: Which.
        hashes: Of rows that the log may not hold any more.
    """
    names = table.table.columns
    hashes = (hashes or {}) | hashes_of(table)

    def order(record: Record) -> tuple[Any, ...]:
        place = tuple(str(record.get(name)) for name in names)
        by = table.table.changes.sequence_by or ("seq",)
        sequence = [part for value in map(record.get, by) for part in (value is not None, int(value or 0))]
        return (*sequence, record["op"] == "d", hashes[place])

    return order

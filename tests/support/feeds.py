"""A reader of a change feed that has a table by the feed alone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from incload_assets.contract.adaptation import BUCKET
from incload_assets.declaration.write import FEED_COLUMNS

ADDED, REMOVED = ("insert", "update_postimage"), ("delete", "update_preimage")


def as_counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows as something that can be counted; a column that a table got later is NULL in rows from before."""
    values = ({name: value for name, value in row.items() if name not in (*FEED_COLUMNS, BUCKET)} for row in rows)
    return Counter(repr(sorted((name, value) for name, value in row.items() if value is not None)) for row in values)


class Follower:
    """A reader that applies the feed of a table from its first version on, and goes on from where it was.

    Args:
        uri: Where the table is.
    """

    def __init__(self, uri: str) -> None:
        self.uri, self.version, self.rows = uri, -1, Counter[str]()
        self.kinds = Counter[str]()
        """The rows of the feed that were applied, by their kind."""

    @classmethod
    def of_now(cls, uri: str) -> "Follower":
        """A reader that takes the table as it is, and follows it from then on."""
        delta, reader = DeltaTable(uri), cls(uri)
        reader.version, reader.rows = delta.version(), as_counted(delta.to_pyarrow_table().to_pylist())
        return reader

    def follow(self) -> None:
        """Applies what the feed has since the last time, commit by commit."""
        delta = DeltaTable(self.uri)
        if delta.version() == self.version:
            return
        reader = delta.load_cdf(starting_version=self.version + 1, ending_version=delta.version())
        feed: dict[int, list[dict[str, Any]]] = {}
        for row in pa.table(reader).to_pylist():
            feed.setdefault(row["_commit_version"], []).append(row)
        for version, rows in sorted(feed.items()):
            gone = as_counted(row for row in rows if row["_change_type"] in REMOVED)
            assert gone <= self.rows, f"version {version} removes rows that are not there: {gone - self.rows}"
            self.rows = self.rows - gone + as_counted(row for row in rows if row["_change_type"] in ADDED)
            self.kinds.update(row["_change_type"] for row in rows)
        self.version = delta.version()

    def check(self) -> None:
        """Follows the table, and has what it holds.

        Raises:
            AssertionError: It has other rows.
        """
        self.follow()
        right = as_counted(DeltaTable(self.uri).to_pyarrow_table().to_pylist())
        assert self.rows == right, f"the feed has {self.rows - right} too much, lacks {right - self.rows}"

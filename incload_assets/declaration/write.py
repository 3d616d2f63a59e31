"""The declaration of a write strategy: its arguments, and the properties that other modules depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

import dagster as dg
import pyspark.sql.types as T
from pydantic import Field
from pyspark.sql import Column

from incload_assets.contract.adaptation import BUCKET as BUCKET
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.source import Source
from incload_assets.declaration.window import Window

_BUCKETS = "a whole number from 2 to 1000, such that a bucket has some tens of megabytes"
Buckets = Annotated[int, Field(ge=2, le=1000, description=_BUCKETS)]
AUTO: Final = "auto"
"""The number of buckets of a table whose first load chooses it."""
FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns that Delta adds to the rows of a change data feed."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """The declared part of a write strategy.

    The part that the engine executes is :class:`~incload_assets.writes.strategy.Strategy`, a subclass.

    Args:
        partition_by: Column that partitions the table; None: not partitioned.
        buckets: Number of hash buckets of its keys, 2 to 1000, that a table without ``partition_by`` is divided into;
            None: not divided; ``"auto"``: the first load of a new table chooses the number by its size. A load reads
            and rewrites only files of the buckets of its changes, so that a few changes to a large table cost little;
            many changes touch every bucket anyway. The table gets a partition column ``_bucket``.
        change_feed: Whether the table has Delta's change data feed (``delta.enableChangeDataFeed``): a reader that
            applies its changes, version by version, has the table. An existing table has it from its next load on. A
            feed that is on stays on. See :mod:`incload_assets.history.feed`.
    """

    partition_by: str | None = None
    # affects where a row is stored, not its content
    buckets: Buckets | Literal["auto"] | None = field(default=None, repr=False)
    change_feed: bool = field(default=False, repr=False)  # affects what readers are told, not its content

    keyed: ClassVar[bool] = True
    """Whether changes need a key."""
    ordered: ClassVar[bool] = True
    """Whether changes need a sequence."""
    deletes: ClassVar[bool] = True
    """Whether a change can be a delete."""
    ranges: ClassVar[bool] = True
    """Whether several windows can be planned and applied at once."""
    supersedes: ClassVar[bool] = False
    """Whether only the newest window counts, so that it makes windows of other definitions harmless."""
    whole: ClassVar[bool] = False
    """Whether the load of any window affects the whole table, so that all windows share one fence."""

    bucketed: ClassVar[bool] = False
    """Whether the table can be divided into hash buckets."""
    moves: ClassVar[bool] = False
    """Whether values of a row that got a new key are looked for under its old key."""
    truncates: ClassVar[bool] = False
    """Whether a change can delete all older rows."""
    adoptable: ClassVar[bool] = False
    """Whether a Delta table that no load has made can be adopted: see :mod:`incload_assets.restore.adopt`."""
    reads_base: ClassVar[bool] = True
    """Whether rows that an adopted table had before may be needed again, so that the log must have them."""

    @property
    def compacts(self) -> bool:
        """True if compaction can remove changes from the log: all but those that ``Strategy.decisive`` returns."""
        return False

    @property
    def serialized(self) -> bool:
        """True if loads of different windows may touch the same rows, so that they run one after another."""
        return self.whole or self.partition_by is None

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Checks what is specific to the strategy; keys, sequence and partition are checked elsewhere."""

    def validate_windows(
        self, table_name: str, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition
    ) -> None:
        """Checks that the table's windows fit the strategy."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """SQL conditions on rows of the table, by the name of the argument that declares them."""
        return {}

    @property
    def stored_by(self) -> tuple[str, ...]:
        """The table's physical partition columns."""
        return (self.partition_by,) if self.partition_by is not None else self._stored_in_buckets

    @property
    def open_rows(self) -> str | None:
        """The boolean partition column of the rows that loads compare with the log; None: they compare all rows."""
        return None

    @property
    def instants(self) -> tuple[str, ...]:
        """The columns with instants of landings; empty: the table has none."""
        return ()

    @property
    def divided_into(self) -> int | None:
        """The number of buckets; None: not divided, or the first load has not chosen it yet."""
        return self.buckets if isinstance(self.buckets, int) else None

    @property
    def _stored_in_buckets(self) -> tuple[str, ...]:
        return (BUCKET,) if self.divided_into is not None else ()

    @property
    def later_arguments(self) -> tuple[object, ...]:
        """Arguments outside its text that are in versions of code if given, so that older declarations keep theirs."""
        return ()

    @property
    def sets_named_columns(self) -> bool:
        """True if a change sets only the columns present in its record."""
        return False

    def by_column(self, changes: Changes) -> bool:
        """True if a change may leave columns unchanged; the log then records which columns it sets."""
        return False

    def reads_windows(self, changes: Changes) -> bool:
        """True if a plan usually reads only the changes of its windows and deletes."""
        return False

    def schema(self, contract: Contract, changes: Changes) -> T.StructType:
        """The table's columns: the contract's columns, then the columns that the write strategy adds."""
        return contract.schema

    def kept_as(self, changes: Changes) -> dict[str, str]:
        """Table properties that existing rows depend on, by name. A table with other values is not written."""
        kept = {"write": type(self).__name__, "keys": ", ".join(sorted(self.identity(changes)))}
        if self.divided_into is not None:  # bucket numbers depend on the order of the keys
            kept |= {"buckets": str(self.divided_into), "bucket_keys": ", ".join(changes.keys)}
        return kept

    def is_content(self, changes: Changes) -> bool:
        """True if a row is identified by its whole content, so that no column of an existing table can be dropped."""
        return False

    def identity(self, changes: Changes) -> tuple[str, ...]:
        """The columns that identify a row, required in every change: the keys and the partition column."""
        partition = self.partition_by
        return (*changes.keys, *((partition,) if partition and partition not in changes.keys else ()))

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """The columns kept in the log for a row that an ingestion removes, so that the table follows; empty: none."""
        return self.identity(changes)

    def together(self) -> tuple[str, ...]:
        """Columns whose equal values make rows a group that is accepted or rejected as a whole; empty: no groups."""
        return ()

    def unique_rows(self, changes: Changes) -> tuple[tuple[str, ...], str | None]:
        """Columns that identify a row of the whole table (empty: none), and a SQL condition on the rows concerned."""
        return tuple(changes.keys), None

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people: which row a key or scope gets from its changes, and what is deleted. Default: none."""
        return []

    @staticmethod
    def _newer(changes: Changes) -> str:
        """The sentence that says which of two changes of a key is the newer one."""
        if not changes.sequence_by:
            return (
                "Two different contents of one key in one window are ordered by a hash, repeatably but without meaning."
            )
        return (
            f"The newer change is the one with the greater {', '.join(changes.sequence_by)}; NULL is older "
            "than any value. "
            "At an equal one a delete is newer, and between two other changes a hash of their content decides."
        )

    def reasons(
        self, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition, window: Window
    ) -> list[Column]:
        """Reasons (string, NULL if fine), besides the contract's, why a row of the window is not accepted."""
        return []

"""What a way of writing has to offer: how changes become rows of the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import dagster as dg
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame

from incload_assets.loading.contract import Contract
from incload_assets.loading.window import Window

if TYPE_CHECKING:
    from incload_assets.loading.context import Context, Snapshot
    from incload_assets.loading.control_rows import Control
    from incload_assets.loading.declaration import Changes, Table
    from incload_assets.loading.facts import Facts
    from incload_assets.loading.landing import Landing
    from incload_assets.loading.plan import Merged, Plan
    from incload_assets.loading.sources.base import Source

BUCKET = "_bucket"
"""Partition column of a table that is divided into hash buckets."""


@dataclass(frozen=True, kw_only=True)
class Write(ABC):
    """How the changes in the log become the table.

    A way of writing says what rows the table should have for the keys (or the scope) that some landed windows concern,
    as a :class:`~incload_assets.loading.plan.Plan` against the rows it has. The plan depends only on what log and
    table hold, never on the order in which they came to it: so whatever the order of loads, the table is the same.

    Args:
        partition_by: Column that partitions the table; None: not partitioned.
        buckets: Into how many hash buckets of its keys a table without ``partition_by`` is divided, 2 to 1000; None:
            it is not. A load reads and rewrites only files of the buckets that its changes fall into, so that a few
            changes to a large table cost little; many changes touch every bucket all the same. The table gets a
            partition column ``_bucket``.
    """

    partition_by: str | None = None
    buckets: int | None = field(default=None, repr=False)  # decides where a row is, not what it is

    keyed: ClassVar[bool] = True
    """Whether changes need a key."""
    ordered: ClassVar[bool] = True
    """Whether changes need a sequence."""
    deletes: ClassVar[bool] = True
    """Whether a change can be a delete."""
    ranges: ClassVar[bool] = True
    """Whether several windows can be planned and applied at once."""
    supersedes: ClassVar[bool] = False
    """Whether only the newest window counts, so that windows of another definition do no harm once there is a newer."""
    whole: ClassVar[bool] = False
    """Whether the load of any window concerns the whole table, so that all share one fence."""

    bucketed: ClassVar[bool] = False
    """Whether the table can be divided into hash buckets."""
    truncates: ClassVar[bool] = False
    """Whether a change can delete everything that is older."""

    @property
    def compacts(self) -> bool:
        """Whether the log can do without some of its changes, as :meth:`decisive` says."""
        return False

    def decisive(self, table: Table, changes: DataFrame, controls: Mapping[Window, Control]) -> DataFrame:
        """Those changes of some windows without which the table could become another one.

        Changes of other windows may come, and go again; so nothing may be left out because of them.

        Args:
            table: The declaration.
            changes: Rows of the log: all changes of the windows.
            controls: The windows, oldest first, with their control rows.
        """
        return changes

    @property
    def serialized(self) -> bool:
        """Whether loads of different windows may touch the same rows, so that they wait for each other."""
        return self.whole or self.partition_by is None

    def validate(  # noqa: B027 - nothing more to check unless a way of writing says so
        self, table: str, contract: Contract, changes: Changes, source: Source
    ) -> None:
        """Check the declaration beyond keys, sequence and partition.

        Raises:
            DeclarationError: With table, field, why, and what to write instead.
        """

    def validate_windows(  # noqa: B027 - any windows will do unless a way of writing says so
        self, table: str, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition
    ) -> None:
        """Check that the table's windows fit.

        Raises:
            DeclarationError: As :meth:`validate` does.
        """

    @property
    def conditions(self) -> Mapping[str, str]:
        """SQL conditions on rows of the table, by the name of the argument that they are declared in."""
        return {}

    @property
    def stored_by(self) -> tuple[str, ...]:
        """Columns by whose values the table's files lie apart."""
        return (self.partition_by,) if self.partition_by is not None else self._stored_in_buckets

    @property
    def _stored_in_buckets(self) -> tuple[str, ...]:
        return (BUCKET,) if self.buckets is not None else ()

    @property
    def sets_named_columns(self) -> bool:
        """Whether a change sets only the columns that its record names."""
        return False

    def by_column(self, changes: Changes) -> bool:
        """Whether a change may leave columns as they are; the log then tells which ones it sets."""
        return False

    def reads_windows(self, changes: Changes) -> bool:
        """Whether a plan mostly reads no changes but those of its windows, and deletes."""
        return False

    def schema(self, contract: Contract, changes: Changes) -> T.StructType:
        """The table's columns: the contract's, and those that the way of writing adds."""
        return contract.schema

    def kept_as(self, changes: Changes) -> dict[str, str]:
        """What the rows of a table rely on, by name: an existing table is not written with anything else."""
        told = {"write": type(self).__name__, "keys": ", ".join(sorted(self.identity(changes)))}
        if self.buckets is not None:  # whose numbers are hashes of the keys in their order
            told |= {"buckets": str(self.buckets), "bucket_keys": ", ".join(changes.keys)}
        return told

    def is_content(self, changes: Changes) -> bool:
        """Whether a row is told from others by all that it holds, so that no column of a table can be left out."""
        return False

    def identity(self, changes: Changes) -> tuple[str, ...]:
        """The columns that no change may lack: the keys, and the partition column, which is part of what a row is."""
        partition = self.partition_by
        return (*changes.keys, *((partition,) if partition and partition not in changes.keys else ()))

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """What is kept of a row that a landing takes away, so that the table can be told; empty: nothing."""
        return self.identity(changes)

    def together(self) -> tuple[str, ...]:
        """Columns whose rows, where they are equal, are only accepted together; empty: each row for itself."""
        return ()

    def unique_rows(self, changes: Changes) -> tuple[tuple[str, ...], str | None]:
        """Columns that identify a row of the whole table, and a SQL condition on the rows meant; empty: none do."""
        return tuple(changes.keys), None

    def reasons(self, table: Table, window: Window) -> list[Column]:
        """Reasons (string, NULL if fine), beyond the contract's, why a row of the window cannot be accepted."""
        return []

    def guard(self, context: Context, landing: Landing, facts: Facts) -> None:  # noqa: B027 - nothing, by default
        """Look at what is about to be landed.

        Raises:
            ContractViolation: It must not be; the log keeps its old rows.
        """

    @abstractmethod
    def plan(self, context: Context, at: Snapshot, *, full: bool) -> Plan:
        """What the table needs for the windows of a snapshot.

        Args:
            context: Of the load.
            at: The versions to read, and the windows (``at.controls``).
            full: Take nothing from the table's present rows on trust.
        """

    @abstractmethod
    def apply(self, context: Context, at: Snapshot, plan: Plan) -> Merged | None:
        """Carry a plan out in one commit that carries the fence of the snapshot, also when there is nothing to do.

        Returns:
            The rows changed, or None if another load committed first and the plan has to be made anew.
        """

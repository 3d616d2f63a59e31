"""History: every version of each row, with the time it was in effect (slowly changing dimension type 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyspark.sql.types as T

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import as_columns
from incload_assets.declaration.source import Source
from incload_assets.declaration.write import AUTO
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import quoted
from incload_assets.writes.beliefs import Beliefs
from incload_assets.writes.merge_into import merge
from incload_assets.writes.plan import Merged, MergePlan
from incload_assets.writes.strategy import Strategy
from incload_assets.writes.versions import VersionColumns, version_plan


@dataclass(frozen=True, kw_only=True)
class History(Strategy):
    """Stores a row per version of a key, in effect in ``[valid_from, valid_to)`` (slowly changing dimension type 2).

    - Versions follow source time: their bounds are values of the first sequence column; the other sequence columns only
      break ties. A NULL is older than any value: a version that begins with NULL has a NULL ``valid_from``.
    - A version begins when a tracked column differs from the key's value just before (by value, two NULLs are equal),
      and after a delete, even with the same content. It ends when the next one begins, or with a delete. Until then its
      ``valid_to`` is NULL and ``is_current`` is true.
    - Changes that alter no tracked column make no version. They update the version that they fall in: its columns are
      the columns of its newest change. So the current rows, without the three columns, are the rows that
      :class:`~incload_assets.assets.Merge` produces from the same changes.
    - Of several changes with the same value of the first sequence column only the newest counts, by the other sequence
      columns, then an upsert before a delete, then a hash of the content: no version has an empty period. The others
      count as stale. Every other change is applied, no matter how late it arrives: its version is inserted, and the
      adjacent versions' bounds are adjusted.
    - With ``partial`` (or ``Changes(unavailable=...)``) a version has in each column the value of the newest change
      that sets it, at the version's time or before. So a late change of a column repairs all later versions until a
      change that sets it, too. Several changes with one value of the first sequence column all count. A delete ends
      what was known. As long as a column that the contract requires has not been set there is no version; the changes
      count as waiting, and the version begins with the change that completes it, even a late one.
    - A change with a NULL in its key is quarantined. A delete of a key without a row is remembered.

    Any load may touch any row, so loads are serialized and share one fence: a plan overtaken by another load is not
    executed. Current and past versions are in different files (the table is partitioned by ``is_current``), so that
    closing a version copies no past versions, and a query of the present reads no past versions. A load whose changes
    are newer than a file of past versions does not read that file. With ``partial`` or ``unavailable`` a load reads all
    changes of its keys in the log, and all their versions.

    Args:
        valid_from: Name of the column with the start of a version, of the type of the first sequence column.
        valid_to: Name of the column with its end, exclusive, of the same type; NULL while it is not known.
        is_current: Name of the boolean column that marks the open version of a key.
        buckets: Number of hash buckets of the keys that current and past versions are each divided into; None: not
            divided. See :class:`~incload_assets.declaration.write.Write`.
        track: Columns whose change makes a version; None: all but keys and sequence columns.
        partial: Whether a change sets only the columns that its record has; see
            :class:`~incload_assets.assets.Merge`.
        known: Whether the table also keeps what was believed earlier (a bitemporal table). A row is then a *belief*, in
            force in ``[known_from, known_to)``: instants of the landings that brought and corrected it. A load closes
            the beliefs that no longer hold and opens new ones; it rewrites none. Closed beliefs are in files of their
            own, which loads do not read. They are nowhere but in the table, so a lost table is not made again.
        known_from: Name of the column with the instant (timestamp) from which on a belief was held.
        known_to: Name of the column with the instant that ended it, exclusive; NULL while it is held.
        is_known: Name of the boolean column that is true while it is held. ``is_current`` is false for all others.

    Example:
        >>> History(track=["city"]).track
        ('city',)
    """

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"
    track: Sequence[str] | None = None
    partial: bool = field(default=False, repr=False)  # as the following: in versions of code by later_arguments
    known: bool = field(default=False, repr=False)
    known_from: str = field(default="known_from", repr=False)
    known_to: str = field(default="known_to", repr=False)
    is_known: str = field(default="is_known", repr=False)

    whole: ClassVar[bool] = True
    bucketed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.track is not None:
            object.__setattr__(self, "track", as_columns(self.track))

    def kept_as(self, changes: Changes) -> dict[str, str]:
        """The properties of every strategy, and the names of the version columns."""
        versions = ", ".join((self.valid_from, self.valid_to, self.is_current))
        kept = super().kept_as(changes) | {"versions": versions}
        return kept if self.beliefs is None else kept | {"beliefs": ", ".join(self.beliefs.names)}

    @property
    def beliefs(self) -> Beliefs | None:
        """The columns that make a version a belief; None if only the present versions are kept."""
        return Beliefs(self.known_from, self.known_to, self.is_known) if self.known else None

    @property
    def open_rows(self) -> str | None:
        """The column that marks beliefs that are still held; None without beliefs."""
        return self.is_known if self.known else None

    @property
    def instants(self) -> tuple[str, ...]:
        """The columns with the instants of landings."""
        return (self.known_from, self.known_to) if self.known else ()

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Checks column names and tracked columns, and that there is no partition column."""
        if self.partition_by is not None:
            raise DeclarationError(
                f"{table_name}: write.partition_by is {self.partition_by!r}, but a history has none",
                rule="a late change may touch any version of its key; the table is partitioned by is_current",
                remedy="drop partition_by",
            )
        if self.known and self.buckets == AUTO:
            raise DeclarationError(
                f"{table_name}: write.buckets is 'auto' and write.known is true",
                rule="the table of a history that keeps what was known is there before its first landing, so that a "
                "lost one is noticed; its first load cannot choose",
                remedy=f"declare a number of buckets, or none; incload rebucket {table_name} changes it later",
            )
        self._check_names(table_name, contract)
        if self.track and len(set(self.track)) < len(self.track):
            raise DeclarationError(
                f"{table_name}: write.track names a column twice: {list(self.track)}",
                rule="each tracked column is named once",
                remedy="name it once",
            )
        for column in self.track or ():
            if column in contract.names and column not in changes.keys:
                continue
            a_key = column in changes.keys
            raise DeclarationError(
                f"{table_name}: write.track names {column!r}, "
                + ("a key" if a_key else f"which {contract.model_name} does not have"),
                rule="a tracked column can change from one version of a key to the next",
                remedy=f"name some of {', '.join(c for c in contract.names if c not in changes.keys)}, or drop track",
            )
        if self.track == () or not self.tracked(contract.names, changes):
            raise DeclarationError(
                f"{table_name}: write.track is {self.track!r}, so that no column makes a version",
                rule="a change of a tracked column begins a version; keys and sequence are not tracked by default",
                remedy="name columns in track (the sequence gives a version per change), or write Merge()",
            )

    def _check_names(self, table_name: str, contract: Contract) -> None:
        taken = {name.lower(): f"{contract.model_name} has {name!r}" for name in contract.names}
        own = ("valid_from", "valid_to", "is_current", *(("known_from", "known_to", "is_known") if self.known else ()))
        for argument in own:
            name = getattr(self, argument)
            if not name.isidentifier() or name.startswith("_"):
                raise DeclarationError(
                    f"{table_name}: write.{argument} is {name!r}",
                    rule="a column name has letters, digits and underscores and begins with a letter",
                    remedy=f"write {argument}={argument!r}, or another such name",
                )
            if name.lower() in taken:
                raise DeclarationError(
                    f"{table_name}: write.{argument} is {name!r}, but {taken[name.lower()]}",
                    rule="a history adds columns to the contract, and names must differ by more than case",
                    remedy=f"give it another name, for example {argument}='version_{argument}'",
                )
            taken[name.lower()] = f"so is write.{argument}"

    @property
    def later_arguments(self) -> tuple[object, ...]:
        """``partial`` and ``known``, which older declarations lack."""
        known = ("known", self.known_from, self.known_to, self.is_known) if self.known else ()
        return (*(("partial",) if self.partial else ()), *known)

    @property
    def sets_named_columns(self) -> bool:
        """True if changes are declared partial."""
        return self.partial

    def by_column(self, changes: Changes) -> bool:
        """True if changes are partial, or can have unavailable values."""
        return self.partial or changes.unavailable is not None

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        first, *_ = changes.sequence_by
        tracked = ", ".join(self.track) if self.track else "any column but keys and sequence"
        ends = f", and by a change with {changes.delete_when}, which deletes it" if changes.delete_when else ""
        at_once = f"Of several changes with one {first} only the newest counts."
        by_column = []
        if self.by_column(changes):
            at_once = f"Several changes with one {first} count together; of each column the newest value."
            by_column = [
                "A version has in each column the value of the newest change that sets it, at the version's start or "
                f"before. A late change of a column goes into all later versions until a change that sets it, too"
                f"{'; nothing from before a delete shows after it' if changes.delete_when else ''}.",
                "A version waits until a change has set each column that the contract requires.",
            ]
        return [
            f"The table has a row for each version of each {', '.join(changes.keys)}, in effect from "
            f"{self.valid_from} until "
            f"{self.valid_to} (exclusive); {self.is_current} marks the version that is in effect.",
            f"A version begins when {tracked} changes, at the change's {first}. It is ended by the next one{ends}.",
            *by_column,
            f"{at_once} {self._newer(changes)}",
            "A late change is put between the versions that it belongs to, and their bounds are adjusted. No "
            "version is "
            "deleted.",
            *self._explained_beliefs(),
        ]

    def _explained_beliefs(self) -> list[str]:
        if not self.known:
            return []
        return [
            f"What was believed earlier stays: a row was believed from {self.known_from} until {self.known_to} "
            f"(exclusive), instants of landings; {self.is_known} marks the rows that are still believed. A correction "
            "ends a belief and does not rewrite it. An erasure removes a person from all beliefs."
        ]

    def tracked(self, columns: Sequence[str], changes: Changes) -> tuple[str, ...]:
        """The columns of the contract whose change makes a version."""
        if self.track is not None:
            return tuple(self.track)
        return tuple(c for c in columns if c not in changes.keys and c not in changes.sequence_by)

    @property
    def stored_by(self) -> tuple[str, ...]:
        """The table's physical partition columns: what is still known, what is current, and buckets if there are."""
        return (*([self.is_known] if self.known else []), self.is_current, *self._stored_in_buckets)

    def schema(self, contract: Contract, changes: Changes) -> T.StructType:
        """The contract's columns, then the columns of the version's period."""
        time = contract.schema[changes.sequence_by[0]].dataType
        own = [
            T.StructField(self.valid_from, time, True, {"comment": "Start of the version; NULL: no known start"}),
            T.StructField(
                self.valid_to, time, True, {"comment": "End of the version, exclusive; NULL: still in effect"}
            ),
            T.StructField(
                self.is_current, T.BooleanType(), True, {"comment": "Whether the version is still in effect"}
            ),
        ]
        if self.known:
            began, ended, held = "When it became known", "When it was corrected; NULL: never", "Whether it is believed"
            own += [
                T.StructField(self.known_from, T.TimestampType(), True, {"comment": began}),
                T.StructField(self.known_to, T.TimestampType(), True, {"comment": ended}),
                T.StructField(self.is_known, T.BooleanType(), True, {"comment": held}),
            ]
        return T.StructType([*contract.schema.fields, *own])

    def unique_rows(self, changes: Changes) -> tuple[tuple[str, ...], str | None]:
        """The keys, among current versions: a key has at most one."""
        return tuple(changes.keys), quoted(self.is_current)

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan for the versions of the windows' keys; see :mod:`incload_assets.writes.versions`."""
        tracked = self.tracked(load.table.columns, load.table.changes)
        names = VersionColumns(self.valid_from, self.valid_to, self.is_current, tracked, self.beliefs)
        return version_plan(load, at, names, full=full)

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced MERGE."""
        return merge(load, at, plan)

"""Snapshot: the table equals the newest full extract, by key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dagster as dg
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED, REPLACED, UPSERT, log_order
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import Share
from incload_assets.declaration.source import Source
from incload_assets.declaration.sql_conditions import columns_in, condition_of_a_row
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.platform.wording import share
from incload_assets.writes.merge_into import merge
from incload_assets.writes.plan import PENDING, Merged, MergePlan, entry
from incload_assets.writes.shrinkage import guard_shrinkage, ingested_windows
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Snapshot(Strategy):
    """Makes the table equal to the newest full extract, by key; keys missing from it are deleted.

    * The newest extract is that of the latest window that was ingested, in the order of windows, not of loads. An older
      one that is loaded later changes nothing; its rows count as stale.
    * Of two rows of one key in one extract the newer one counts, in the order (sequence if declared, NULL first;
      content hash); the other is stale, or a duplicate if both are equal. A NULL in a key is quarantined.
    * The key of a quarantined row keeps its earlier row. So does every key that is missing from an extract with a
      quarantined row whose key cannot be read. Bad rows delete no good ones.
    * An extract that is empty or suddenly small is stopped before it replaces anything. An empty one is accepted as
      long as there are no rows to lose.
    * Rows of the table that are equal to the extract's are not written again.
    * A key may move to another partition: it has one row.

    Args:
        partition_by: Column that partitions the table.
        delete_missing: Whether a key that the newest extract lacks is deleted. If not, each key has the row of the
            newest extract that has the key.
        max_shrink: Largest share of its rows, 0 to 1, that an extract may lack of the one before it.
        scope: SQL condition on the table's columns for the rows that the extracts are complete for. Their rows outside
            of it are quarantined, and rows of the table outside of it stay unchanged, unless an extract has their key.

    Example:
        >>> Snapshot(scope="region = 'EU'", max_shrink=0.1).delete_missing
        True
    """

    delete_missing: bool = True
    max_shrink: Share = 0.5
    scope: str | None = None

    ordered: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    ranges: ClassVar[bool] = False
    supersedes: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Checks that ``scope`` is a condition on columns of the contract."""
        if self.scope is None:
            return
        rule, remedy = "it is a SQL condition on columns of the contract", "write for example scope=\"region = 'EU'\""
        parsed = condition_of_a_row(table_name, "write.scope", self.scope, rule, remedy)
        named = columns_in(table_name, contract, "write.scope", self.scope, parsed, remedy)
        names = {column.parts[0].name for column in named}
        if not names or (unknown := sorted(names - set(contract.names))):
            found = f"names {', '.join(map(repr, unknown))}" if names else "names no column"
            raise DeclarationError(
                f"{table_name}: write.scope is {self.scope!r}, which {found}",
                rule=f"{rule} ({', '.join(contract.names)})",
                remedy=remedy,
            )

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        keys, scope = ", ".join(changes.keys), f", where {self.scope}" if self.scope else ""
        missing = (
            f"A row whose {keys} the newest extract lacks is deleted{scope}. A quarantined row deletes "
            "nothing: its key "
            "keeps its earlier row."
            if self.delete_missing
            else f"Nothing is deleted: a row whose {keys} the newest extract lacks stays."
        )
        said = [
            f"Each window is a full extract. The table has one row per {keys}, that of the newest window that "
            "is loaded; "
            "an older window that is loaded later changes nothing that a newer one has.",
            missing,
        ]
        if self.scope:
            said.append(f"A row outside of {self.scope} is quarantined, and such rows of the table stay.")
        if self.delete_missing:
            said.append(
                f"An extract that is empty, or lacks more than {share(self.max_shrink)} of the rows of the "
                "one before it, "
                "stops before it replaces anything."
            )
        return [*said, self._newer(changes)]

    @property
    def conditions(self) -> Mapping[str, str]:
        """The scope, if there is one."""
        return {} if self.scope is None else {"scope": self.scope}

    def identity(self, changes: Changes) -> tuple[str, ...]:
        """The keys alone, because a row may move to another partition."""
        return tuple(changes.keys)

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """The keys; no columns if the whole table is compared anyway."""
        return () if self.delete_missing else self.identity(changes)

    def reasons(
        self, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition, window: Window
    ) -> list[Column]:
        """The reason for rows outside the scope."""
        if self.scope is None:
            return []
        return [F.when(~self._in_scope(), f"outside the snapshot's scope {self.scope}")]

    def guard(self, load: LoadContext, ingestion: Ingestion, facts: Facts) -> None:
        """Stops an extract that is suddenly small, if missing keys would be deleted."""
        if self.delete_missing:
            guard_shrinkage(load, ingestion, facts, self.max_shrink, self.scope)

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan: the row of each key by the newest extracts, compared with the table's."""
        table, (mine,) = load.table, at.records
        windows = [window.key for window in ingested_windows(load, at.log_version)]
        here = load.log.read(load.spark, at.log_version, [mine])
        present = self._present(load, at)
        if self.delete_missing:
            wanted = _complete(load, at, windows)
        else:
            keys = here.filter(F.col("_kind").isin(UPSERT, REPLACED)).select(*map(col, table.identity)).distinct()
            wanted = _newest(load, at, windows, keys)
            present = present.join(keys, list(table.identity), "left_semi")
        counts = _counts(here, table)
        both = wanted.join(present, list(table.identity), "full").join(counts, list(table.identity), "full")
        actions = both.select(
            "*", F.lit(mine).alias("_window"), (F.col("_from") == mine).eqNullSafe(F.lit(True)).alias("_mine")
        ).withColumn("_action", _action())
        valid = f"{content_hash_sql(table.columns, 't')} <=> s._seen"
        return MergePlan(actions, identity=table.identity, valid=valid, ledger=_ledger(actions))

    @property
    def compacts(self) -> bool:
        """True if a clean extract determines the state of every key."""
        return self.delete_missing

    def decisive(self, table: Table, changes: DataFrame, records: Mapping[Window, WindowRecord]) -> DataFrame:
        """The rows of the newest extract without quarantined rows, which determines every key, and of later ones."""
        clean = max((window for window, record in records.items() if not record.rejected), default=min(records))
        return changes.filter(F.col("_window").isin(*(window.key for window in records if window >= clean)))

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced MERGE."""
        return merge(load, at, plan)

    def _in_scope(self) -> Column:
        return F.coalesce(F.expr(self.scope or "true"), F.lit(False))

    def _present(self, load: LoadContext, at: ReadView) -> DataFrame:
        """The rows of the table; rows outside the scope matter only if the extract has their key."""
        table = load.table
        return load.rows(at).select(
            *map(col, table.identity),
            F.expr(content_hash_sql(table.columns)).alias("_seen"),
            self._in_scope().alias("_in_scope"),
        )


def _ranked(load: LoadContext, at: ReadView, windows: list[str]) -> DataFrame:
    """The log's rows of some windows, with the rank of their window."""
    ranks = load.spark.createDataFrame(
        list(zip(windows, range(len(windows)), strict=True)), "_window string, _rank int"
    )
    rows = load.changes(at).filter(F.col("_kind").isin(UPSERT, REJECTED))
    if len(windows) == 1:
        rows = rows.filter(F.col("_window") == windows[0])
    return rows.join(F.broadcast(ranks), "_window").alias("log")


def _folded(rows: DataFrame, table: Table, *more: Column) -> DataFrame:
    """The newest row of the newest window that has the key, per key, with its place and hash."""
    accepted = F.col("_kind") == UPSERT
    place = F.struct(F.col("_rank").alias("rank"), log_order(table).alias("order"), F.col("_window").alias("from"))
    row = F.struct(*(col(name, "log") for name in table.columns))
    return (
        rows.select(
            *(col(name, "log") for name in table.identity),
            "_rank",
            accepted.alias("_accepted"),
            place.alias("_p"),
            row.alias("_r"),
        )
        .groupBy(*map(col, table.identity))
        .agg(
            F.max(F.when(F.col("_accepted"), F.col("_p"))).alias("_place"),
            F.max_by("_r", F.when(F.col("_accepted"), F.col("_p"))).alias("_row"),
            *more,
        )
        .filter(F.col("_place").isNotNull())
        .withColumns({"_from": F.col("_place.from"), "_hash": F.col("_place.order.hash")})
    )


def _newest(load: LoadContext, at: ReadView, windows: list[str], keys: DataFrame) -> DataFrame:
    """The row of the newest extract that has the key, per key."""
    rows = _ranked(load, at, windows).join(keys, list(load.table.identity), "left_semi")
    return _folded(rows.alias("log"), load.table)


def _complete(load: LoadContext, at: ReadView, windows: list[str]) -> DataFrame:
    """The row of the newest extract per key; if that row is quarantined, of the extract before it, and so on.

    An extract without quarantined rows determines every key, so no older extract is read. Otherwise a key has the row
    of the newest extract that accepted it, unless a later extract whose keys can all be read lacks the key.
    """
    table = load.table
    tail, blind = windows[-1:], set[int]()
    if _rejected(load, at, tail):
        records = load.log.records(at.log_version)
        windows = [key for key in windows if not records[key].is_withdrawn] or windows
        clean = max((n for n, key in enumerate(windows) if not records[key].rejected), default=0)
        tail = windows[clean:]
        blind = _blind(load, at, tail)
    seeing = F.array(*(F.lit(rank) for rank in range(len(tail)) if rank not in blind)).cast("array<int>")
    silent = F.collect_set(F.when(~F.col("_accepted"), F.col("_rank"))).alias("_silent")
    folded = _folded(_ranked(load, at, tail), table, silent)
    later = F.filter(seeing, lambda rank: rank > F.col("_place.rank"))
    return folded.filter(F.size(F.array_except(later, F.col("_silent"))) == 0)


def _rejected(load: LoadContext, at: ReadView, windows: list[str]) -> bool:
    return any(record.rejected for record in load.log.records(at.log_version, only=windows).values())


def _blind(load: LoadContext, at: ReadView, windows: list[str]) -> set[int]:
    """The ranks of windows with a quarantined row whose key cannot be read."""
    unreadable = F.greatest(*(col(name, "log").isNull() for name in load.table.identity), F.lit(False))
    rows = _ranked(load, at, windows).filter((F.col("_kind") == REJECTED) & unreadable).select("_rank").distinct()
    return {row["_rank"] for row in rows.head(len(windows))}


def _counts(here: DataFrame, table: Table) -> DataFrame:
    """The number of rows per key of the window, and how many of them differ."""
    rows = here.filter(F.col("_kind") == UPSERT).alias("log")
    order = log_order(table).alias("_o")
    return (
        rows.select(*(col(name, "log") for name in table.identity), order)
        .groupBy(*map(col, table.identity))
        .agg(F.count(F.lit(1)).alias("_rows"), F.count_distinct("_o").alias("_distinct"))
    )


def _action() -> Column:
    wanted, there = F.col("_row").isNotNull(), F.col("_seen").isNotNull()
    return (
        F.when(wanted & ~there, "insert")
        .when(wanted & (F.col("_seen") != F.col("_hash")), "update")
        .when(~wanted & there & F.col("_in_scope"), "delete")
        .when(wanted & F.col("_mine"), "same")
        .otherwise("stale")
    )


def _ledger(actions: DataFrame) -> DataFrame:
    has_rows, in_effect = F.col("_rows").isNotNull(), F.col("_action") == "same"
    pending = F.col("_action").isin(*PENDING)
    columns = entry(
        keys=has_rows | pending,
        pending=pending,
        applied=has_rows & in_effect,
        stale=F.when(has_rows, F.col("_distinct") - in_effect.cast("long")),
        duplicate=F.when(has_rows, F.col("_rows") - F.col("_distinct")),
        present=in_effect,
        log_hash=F.when(in_effect, F.col("_hash")),
        table_hash=F.when(in_effect, F.col("_seen")),
    )
    return actions.select(*columns)

"""DeleteInsert: groups of rows that are replaced as a whole, for example an invoice with its lines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REPLACED, UPSERT
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView, near
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import as_columns
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.writes.merge_into import merge
from incload_assets.writes.plan import Merged, MergePlan, entry
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class DeleteInsert(Strategy):
    """Replaces groups of rows as a whole: rows missing from the newest set of a group are removed.

    The rows of a group arrive together, in one window and with one sequence (the version of the invoice): they are a
    *set*. The table has the newest set of each group, in the order (sequence, NULL first; rows before a delete; content
    of the set); the rows of all other sets count as stale. A row that occurs twice in a set occurs twice in the table.
    A set that arrives again in another window changes nothing. Within a window the rows of a sequence are one set, no
    matter which files they came in: rows delivered twice in the *same* window occur twice.

    A delete removes the group, and is remembered: it is newer than rows of its own sequence. A NULL in ``by`` is
    quarantined. If one row of a group is quarantined, so are its other rows in that window, because a partial set would
    be mistaken for the whole. A set replaces its predecessor in one commit, so a reader never sees a mixture.

    A range or a predicate can be a group, too: fill a column with its name in the table's function, and name that
    column.

    Args:
        by: Columns that identify a group.
        partition_by: Column that partitions the table, one of ``by``: all rows of a group are in one partition.

    Example:
        >>> DeleteInsert(by=["invoice_id"]).by
        ('invoice_id',)
    """

    by: Sequence[str]

    keyed: ClassVar[bool] = False
    adoptable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", as_columns(self.by))

    def validate(self, table_name: str, contract: Contract, changes: "Changes", source: Source) -> None:
        """Checks that groups are identified by columns of the contract, and that each is in one partition."""
        where = f"{table_name}: write.by is {list(self.by)}"
        if not self.by or len(set(self.by)) < len(self.by):
            raise DeclarationError(
                where,
                rule="by names the columns that identify a group, each once",
                remedy='write for example DeleteInsert(by=["invoice_id"])',
            )
        for name in self.by:
            plain = {f.name for f in contract.fields if f.data_type.typeName() not in _NOT_COMPARED}
            if name not in plain or name in changes.sequence_by:
                raise DeclarationError(
                    f"{where}, with {name!r}"
                    + ("" if name in contract.names else f", which {contract.model_name} does not have"),
                    rule="a group is identified by columns of the contract, of plain types, other than the sequence",
                    remedy=f"name some of {', '.join(sorted(plain - {*changes.sequence_by}))}",
                )
        if self.partition_by is not None and self.partition_by not in self.by:
            raise DeclarationError(
                f"{where}, but partition_by is {self.partition_by!r}",
                rule="all rows of a group are in one partition",
                remedy=f"add {self.partition_by!r} to by, if it never differs between rows of a group",
            )
        if changes.keys and not set(self.by) <= set(changes.keys):
            raise DeclarationError(
                f"{where}, but changes.keys is {list(changes.keys)}",
                rule="a declared key identifies a row within its group",
                remedy="add the columns of by to the keys, or drop the keys",
            )

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        by = ", ".join(self.by)
        deletes = (
            f"A change with {changes.delete_when} deletes its group; an older set that arrives later does not "
            "restore it."
            if changes.delete_when
            else "Nothing deletes a group."
        )
        return [
            f"The rows with equal {by} are a group, which is replaced as a whole: rows that its newest set "
            "lacks are gone.",
            "The rows of a group that have one sequence in one window are a set. " + self._newer(changes),
            deletes,
            "If one row of a group is quarantined, so are the other rows of the group in that window.",
        ]

    def identity(self, changes: "Changes") -> tuple[str, ...]:
        """The columns that identify a group."""
        return tuple(self.by)

    def together(self) -> tuple[str, ...]:
        """The columns that identify a group."""
        return tuple(self.by)

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan: the newest set of each group in the windows, compared with the table's rows of the group.

        Groups of windows ingested for the first time are compared with the deletes of the log and with the table, which
        has the newest set of earlier loads. Groups of windows ingested again, or all if ``full``, are compared with the
        whole log.
        """
        table = load.table
        full = full or any(record.landing > 1 for record in at.records.values())
        changes = near(load.near_changes(at), table, at)
        is_here = F.col("_window").isin(*at.records)
        concerned = is_here & F.col("_kind").isin(UPSERT, DELETE, REPLACED)
        places = changes.filter(concerned).select(_group(table), "_window").distinct()
        groups = places.select("_group").distinct()
        deciding = F.col("_kind").isin(UPSERT, DELETE) & (F.lit(full) | is_here | (F.col("_kind") == DELETE))
        history = _log_rows(changes.filter(deciding), table).join(groups, "_group", "left_semi")
        sets = _sets(history)
        newest = sets.groupBy("_group").agg(F.max("_order").alias("_order"), F.max_by("_window", "_order").alias("_of"))
        mine = (
            sets.filter(is_here)
            .groupBy("_group", "_window")
            .agg(
                F.max("_order").alias("_mine"),
                F.max_by("_rows", "_order").alias("_top"),
                F.sum("_rows").alias("_all"),
            )
        )
        state = (
            places.join(mine, ["_group", "_window"], "left")
            .join(newest, "_group", "left")
            .join(_present(load.rows(at, near=True), table, "_seen"), "_group", "left")
            .withColumn("_leads", F.row_number().over(Over.partitionBy("_group").orderBy("_window")) == 1)
            .withColumn("_pending", _pending(full=full))
        )
        return MergePlan(
            _actions(state.filter("_leads AND _pending"), history, table),
            identity=self.identity(table.changes),
            valid="true",
            ledger=_ledger(state, full=full),
        )

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced MERGE, for groups that have not changed since the plan was made.

        A MERGE that reads its own table sees the version of its own transaction. Without this condition, a set that
        another load has inserted since would be mixed with the planned one.
        """
        table = load.table
        rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
        now = _present(near(rows, table, at), table, "_now")
        still = plan.actions.join(now, "_group", "left").filter(F.col("_now").eqNullSafe(F.col("_seen")))
        return merge(load, at, replace(plan, actions=still))


_NOT_COMPARED = ("map", "array", "struct", "variant")


def _group(table: "Table") -> Column:
    return F.struct(*map(col, table.identity)).alias("_group")


def _place(table: "Table") -> Column:
    return F.struct(*(col(name).alias(f"s{i}") for i, name in enumerate(table.changes.sequence_by))).alias("_place")


def _log_rows(changes: DataFrame, table: "Table") -> DataFrame:
    """Rows of the log by group, with the columns that order their sets."""
    return changes.select(
        _group(table),
        "_window",
        _place(table),
        (F.col("_kind") == DELETE).alias("_is_delete"),
        F.expr(content_hash_sql(table.columns)).alias("_h"),
        F.struct(*map(col, table.columns)).alias("_r"),
    )


def _order(place: str, is_delete: str) -> Column:
    """The order of a set; deletes of a group are equal, no matter what other columns they have."""
    content = F.when(F.col(is_delete), F.lit(0)).otherwise(F.col("_content")).cast("decimal(38,0)")
    return F.struct(F.col(place).alias("place"), F.col(is_delete).alias("delete"), content.alias("content"))


# a hash of a multiset: each row counts as often as it occurs, and their order does not matter
_CONTENT = "sum(CAST(_h AS DECIMAL(28,0)))"


def _sets(rows: DataFrame) -> DataFrame:
    sets = rows.groupBy("_group", "_window", "_place", "_is_delete")
    counted = sets.agg(F.count(F.lit(1)).alias("_rows"), F.expr(_CONTENT).alias("_content"))
    return counted.select("_group", "_window", "_rows", _order("_place", "_is_delete").alias("_order"))


def _present(rows: DataFrame, table: "Table", name: str) -> DataFrame:
    """The set of each group in the table, by its order."""
    hashed = rows.select(_group(table), _place(table), F.expr(content_hash_sql(table.columns)).alias("_h"))
    sets = hashed.groupBy("_group").agg(F.max("_place").alias("_place"), F.expr(_CONTENT).alias("_content"))
    return sets.withColumn("_no", F.lit(False)).select("_group", _order("_place", "_no").alias(name))


def _right(*, full: bool) -> Column:
    """The order of the set that the table should have; NULL if there is none."""
    return F.col("_order") if full else F.greatest("_order", "_seen")  # greatest ignores NULL


def _pending(*, full: bool) -> Column:
    right, seen = _right(full=full), F.col("_seen")
    gone = right.isNull() | right.getField("delete")
    return F.when(gone, seen.isNotNull()).otherwise(~seen.eqNullSafe(right))


def _actions(groups: DataFrame, history: DataFrame, table: "Table") -> DataFrame:
    """The actions: per group, one that deletes all its rows, and one for each row of its new set.

    Actions for new rows have NULLs as identity, so that the MERGE matches no row and inserts them.
    """
    columns = ["_group", "_window", "_seen", "_row", "_action"]
    kept = groups.select("_group", "_seen", "_order", "_of", F.col("_window").alias("_for"))
    out = (
        kept.filter(F.col("_seen").isNotNull())
        .withColumns({"_window": F.col("_for"), "_row": F.lit(None).cast(table.contract.schema)})
        .withColumn("_action", F.lit("delete"))
        .select(*(F.col("_group").getField(name).alias(name) for name in table.identity), *columns)
    )
    is_new = (F.col("_window") == F.col("_of")) & F.col("_place").eqNullSafe(F.col("_order.place"))
    new = (
        history.filter(~F.col("_is_delete"))
        .join(kept.filter(~F.col("_order.delete")), "_group")
        .filter(is_new)
        .withColumns({"_window": F.col("_for"), "_row": F.col("_r"), "_action": F.lit("insert")})
        .select(*(F.lit(None).cast(table.type_of(name)).alias(name) for name in table.identity), *columns)
    )
    return out.unionByName(new)


def _ledger(state: DataFrame, *, full: bool) -> DataFrame:
    in_effect = F.coalesce(F.col("_mine") == _right(full=full), F.lit(False)) & ~F.col("_pending")
    present = in_effect & F.col("_seen").isNotNull()
    applied = F.when(in_effect, F.col("_top")).otherwise(0)
    columns = entry(
        keys=F.lit(1),
        pending=F.col("_pending") & F.col("_leads"),
        applied=applied,
        stale=F.coalesce("_all", F.lit(0)) - applied,
        present=present,
        log_hash=F.when(present, F.xxhash64("_mine.content")),
        table_hash=F.when(present, F.xxhash64("_seen.content")),
    )
    return state.select(*columns)

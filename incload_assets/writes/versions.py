"""Version fold: computes the versions of keys from their changes, and compares them with the table's.

A key's changes with the same value of the first sequence column are a *moment*, which is the key's state from then on
(see :mod:`incload_assets.writes.moments`). Consecutive moments with equal tracked columns are one *stretch*: a version,
or a time without a row. So the versions depend only on the set of changes, not on the order of their arrival.

Two folds produce the same table:

* The full fold uses all changes of the keys in the log, and the table's rows only for comparison.
* The incremental fold is for windows that lost no row and have an oldest change. The row in effect just before that
  change represents all earlier changes. Versions that ended before it are read neither from the log nor from the table,
  whose files of past versions are ordered by time. If a late change splits a version that already shows a newer change,
  its earlier columns are not known. Then the key is *unknown*: the fold leaves it alone, and it is pending until a full
  fold.

Changes that set some columns are always folded in full: a row of the table does not tell which of its columns were set,
and values that wait for a required column are in no row.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REPLACED, UPSERT, row_order_sql
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import BROADCAST_ROWS, ReadView, oldest_sql
from incload_assets.declaration.table import Table
from incload_assets.delta.session import CachedFrame
from incload_assets.platform.sql import col, content_hash_sql, quoted
from incload_assets.writes.beliefs import Beliefs
from incload_assets.writes.moments import moments_of
from incload_assets.writes.plan import PENDING, UNKNOWN, MergePlan, entry

WORTH_HOLDING_BYTES = 16 * 2**20
"""Size of near rows from which the rows read are cached, because a plan uses them twice."""


@dataclass(frozen=True)
class VersionColumns:
    """The columns that make a row a version: period, whether it is open, and columns whose change begins one."""

    valid_from: str
    valid_to: str
    is_current: str
    tracked: tuple[str, ...]
    beliefs: Beliefs | None = None

    def shown(self, table: Table) -> list[str]:
        """The columns of a version, without the period of a belief."""
        own = () if self.beliefs is None else self.beliefs.names
        return [name for name in table.schema.names if name not in own]


def version_plan(load: LoadContext, at: ReadView, names: VersionColumns, *, full: bool) -> MergePlan:
    """The merge plan for the versions of a read view's keys; if ``full``, without trusting the table's present rows.

    Its actions have the columns of every plan, the additional ``_action`` unknown; ``_window``, one of the windows with
    the key; ``_seen``, hash of the table's row, which must be unchanged at the MERGE.
    """
    table, keys = load.table, list(load.table.identity)
    changes = load.changes(at)
    here = changes.filter(F.col("_window").isin(*at.records) & F.col("_kind").isin(UPSERT, DELETE, REPLACED))
    concerned = here.groupBy(*map(col, keys)).agg(F.min("_window").alias("_lead"))
    history, present = changes.filter(F.col("_kind").isin(UPSERT, DELETE)), load.rows(at, near=True)
    match, beliefs = "true", names.beliefs
    if beliefs is not None:
        match = beliefs.open_sql
        present = present.alias("t").filter(match)
    firsts = None if full or at.replaced or table.by_column else at.first_sequences
    since = oldest_sql(table, firsts) if firsts else None
    not_before = "true"
    if since is not None:
        not_before = f"(t.{quoted(names.valid_to)} IS NULL OR t.{quoted(names.valid_to)} >= {since})"
        history = history.filter(col(table.changes.sequence_by[0]) >= F.expr(since))
    few = F.broadcast(concerned) if at.changes <= BROADCAST_ROWS else concerned
    present = present.alias("t").filter(not_before).join(few, keys)
    held = CachedFrame()
    if at.near_bytes >= WORTH_HOLDING_BYTES:
        present = held.of("present", present)
    moments = moments_of(history.join(concerned, keys), table, at)
    if since is not None:
        began = col(names.valid_from)
        before = present.filter(began.isNull() | (began < F.expr(since)))
        moments = moments.unionByName(_in_effect(before, table, names), allowMissingColumns=True)
    compared = _compared(_versions(_stretches(moments, table, names), table, names), present, table, names)
    actions, identity = compared, (*keys, names.valid_from)
    if beliefs is not None:
        assert at.known_at is not None
        actions = beliefs.actions(compared, table, names.is_current, at.known_at)
        identity = (*identity, beliefs.known_from)
    return MergePlan(
        actions,
        identity=identity,
        valid=f"{content_hash_sql(table.schema.names, 't')} <=> s._seen",
        ledger=_ledger(compared, here, table),
        match=not_before if beliefs is None else f"{match} AND {not_before}",
        release=held.release,
    )


def _in_effect(rows: DataFrame, table: Table, names: VersionColumns) -> DataFrame:
    """The table's rows as moments."""
    return rows.alias("t").select(
        *map(col, table.identity),
        "_lead",
        col(names.valid_from, "t").alias("_at"),
        F.expr(row_order_sql(table, "t")).alias("_order"),
        F.struct(*(col(name, "t") for name in table.columns)).alias("_content"),
        F.lit(True).alias("_shows"),
    )


def _stretches(moments: DataFrame, table: Table, names: VersionColumns) -> DataFrame:
    """Stretches of consecutive equal moments: their start (``_from``), and their newest change."""
    place = [*map(col, table.identity), F.col("_lead")]
    in_time = Over.partitionBy(*map(col, table.identity)).orderBy(F.asc_nulls_first("_at"))
    tracked = F.expr(content_hash_sql(names.tracked, "_content"))
    says = F.when(F.col("_shows"), tracked)
    return (
        moments.withColumn("_says", says)
        .withColumn("_turns", ~F.col("_says").eqNullSafe(F.lag("_says").over(in_time)))
        .withColumn("_stretch", F.count(F.when(F.col("_turns"), 1)).over(in_time))
        .groupBy(*place, "_stretch")
        .agg(
            F.min(F.struct("_at")).getField("_at").alias("_from"),  # in a struct a NULL is the least
            F.max("_order").alias("_newest"),
            F.max_by("_content", "_order").alias("_content"),
            F.first("_shows").alias("_shows"),
            F.flatten(F.collect_list("_counts")).alias("_counts"),
        )
    )


def _versions(stretches: DataFrame, table: Table, names: VersionColumns) -> DataFrame:
    """The correct row of each stretch as ``_row``, NULL if the key is deleted."""
    in_time = Over.partitionBy(*map(col, table.identity)).orderBy("_stretch")
    row = F.struct(
        *(F.col("_content").getField(name).alias(name) for name in table.columns),
        F.col("_from").alias(names.valid_from),
        F.col("_to").alias(names.valid_to),
        F.col("_to").isNull().alias(names.is_current),  # only the first stretch of a key can begin with NULL
    )
    shows_later = F.coalesce(F.col("_newest").getField("s0") >= F.col("_to"), F.lit(False))
    return (
        stretches.withColumn("_to", F.lead("_from").over(in_time))
        .withColumn("_row", F.when(F.col("_shows"), row))
        .withColumn("_shows_later", shows_later)
    )


def _compared(wanted: DataFrame, present: DataFrame, table: Table, names: VersionColumns) -> DataFrame:
    seen = present.alias("t").select(
        *(col(name, "t") for name in table.identity),
        col(names.valid_from, "t").alias("_from"),
        "_lead",
        F.expr(content_hash_sql(table.schema.names, "t")).alias("_seen"),
        F.expr(content_hash_sql(table.columns, "t")).alias("_seen_content"),
        F.expr(content_hash_sql(names.shown(table), "t")).alias("_seen_version"),
        *([F.struct("t.*").alias("_before")] if names.beliefs is not None else []),
    )
    same_version = F.col("w._row").isNotNull() & F.col("w._from").eqNullSafe(F.col("t._from"))
    for name in table.identity:
        same_version &= col(name, "w") == col(name, "t")
    absent, unwanted = F.col("_seen").isNull(), F.col("_row").isNull()
    of_key = Over.partitionBy(*map(col, table.identity))
    differs = F.expr(content_hash_sql(names.shown(table), "_row")) != F.col("_seen_version")
    return (
        wanted.alias("w")
        .join(seen.alias("t"), same_version, "full")
        .select(
            *(F.coalesce(col(name, "w"), col(name, "t")).alias(name) for name in table.identity),
            F.coalesce("w._from", "t._from").alias(names.valid_from),
            F.coalesce("w._lead", "t._lead").alias("_window"),
            F.when(absent & unwanted, "same")
            .when(unwanted, "delete")
            .when(absent, "insert")
            .when(differs, "update")
            .otherwise("same")
            .alias("_action"),
            *map(F.col, ("_row", "_seen", "_seen_content", "_newest", "_counts", "_shows_later")),
            *(["_before"] if names.beliefs is not None else []),
        )
        .withColumn("_action", F.when(F.max("_shows_later").over(of_key), UNKNOWN).otherwise(F.col("_action")))
    )


def _ledger(actions: DataFrame, here: DataFrame, table: Table) -> DataFrame:
    shown = (F.col("_action") == "same") & F.col("_seen").isNotNull()
    row_hash = F.expr(content_hash_sql(table.columns, "_row")) if table.by_column else None

    def of_window(count: Column) -> Column:
        distinct, applied, waiting = count["_distinct"], count["_applied"], count["_waiting"]
        in_row = shown & (count["_order"] == F.col("_newest"))
        columns = entry(
            count["_mine"],
            applied=applied,
            waiting=waiting,
            stale=distinct - applied - waiting,
            duplicate=count["_rows"] - distinct,
            present=in_row,
            log_hash=F.when(in_row, count["_order"]["hash"] if row_hash is None else row_hash),
            table_hash=F.when(in_row, F.col("_seen_content")),
        )
        return F.struct(*columns)

    pending = F.array(F.struct(*entry(pending=F.col("_action").isin(*PENDING, UNKNOWN))))
    entries = F.concat(pending, F.coalesce(F.transform("_counts", of_window), F.slice(pending, 1, 0)))
    keys = here.select("_window", *map(col, table.identity)).distinct()
    return actions.select(F.inline(entries)).unionByName(keys.select(*entry(keys=F.lit(1))))

"""Row fold: compares the newest change of each key in some windows with the table's row.

A plan without pending actions proves that the windows are reconciled; a plan with pending actions is the source of the
MERGE. Both are the same query, so the merge and its check cannot diverge.

Two folds produce the same table, which a property test verifies:

* The incremental fold is for keys that only gained changes. It uses the newest change of the windows, the newest delete
  or truncate anywhere in the log, and the table's row, but does not read the log's history. If the table's row has the
  same sequence but other content, this fold cannot distinguish a change of another window from a manual edit. It then
  marks the key as *unknown*, and the key is pending until a full fold.
* The full fold is for keys that had a row removed, and for repairs. It uses all changes of the key in the log, and the
  table's row only for comparison.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import (
    DELETE,
    EMPTIES,
    REPLACED,
    UPSERTS,
    log_order,
    row_order_sql,
    truncate_order,
)
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import MANY_CHANGES, ReadView, near, of_keys, oldest_sql
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import all_of, col
from incload_assets.writes.plan import PENDING, UNKNOWN, MergePlan, entry
from incload_assets.writes.single_changes import are_single, fills, ledger_of_sums


def fold_plan(load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
    """The merge plan for the keys of a read view's windows; keys that had a row removed, or all if ``full``, in full.

    A window whose changes are all newer than the table's rows (see :mod:`incload_assets.delta.statistics`) is not
    compared before its MERGE, which compares each row anyway. This saves two of three reads of the table.

    The actions have the columns of every plan, and:

    - ``_action``: for rows that the MERGE leaves alone same (the window's newest change is in effect), stale (a newer
      change is in effect) or unknown;
    - ``_order``, ``_seen``: order of the deciding change, and of the table's row;
    - ``_mine_order``: order of the window's newest change of the key, NULL if the window no longer has one;
    - ``_full``: whether the key was folded in full;
    - ``_rows``, ``_distinct``: number of changes of the key in the window, and how many of them differ.
    """
    table = load.table
    changes = load.near_changes(at) if full or at.replaced else load.window_changes(at)
    here = changes.filter(F.col("_window").isin(*at.records))
    several = len(at.records) > 1
    own = here.filter(F.col("_kind").isin(*UPSERTS, DELETE))
    single = not (full or several or at.replaced) and are_single(load, at, own)
    mine = _only(own, table, "mine") if single else _newest(own, table, "mine", per_window=True)
    place = [*table.identity, "_window"]
    if full:
        keys = here.filter(F.col("_kind").isin(*UPSERTS, DELETE, REPLACED)).select(*map(col, place)).distinct()
        wanted = _folded(changes, keys, mine, table, at)
    elif at.replaced:
        marked = here.filter(F.col("_kind") == REPLACED).select(*map(col, place)).distinct()
        taken = marked.select(*map(col, table.identity)).distinct()
        fast = mine.join(taken, list(table.identity), "left_anti")
        slow = mine.join(taken, list(table.identity), "left_semi")
        keys = marked.unionByName(slow.select(*map(col, place))).distinct() if several else marked
        wanted = _against_deletes(changes, fast, table, at).unionByName(_folded(changes, keys, slow, table, at))
    else:
        wanted = _against_deletes(changes, mine, table, at)
    if at.changes <= MANY_CHANGES:  # its reconciliation folds the same; more are read and folded again
        wanted = load.kept.of((at.log_version, full, at.gained is None, *at.records), wanted)
    if several:  # only one of the windows that have the key gets its action
        by_key = Over.partitionBy(*map(col, table.identity)).orderBy(F.desc_nulls_last("_mine_order"), "_window")
        wanted = wanted.withColumn("_leads", F.row_number().over(by_key) == 1)
    else:
        wanted = wanted.withColumn("_leads", F.lit(True))
    concerned = here.filter(F.col("_kind").isin(*UPSERTS, DELETE, REPLACED))
    compared = _compared(wanted, _present(load, at, concerned), table)
    seen = row_order_sql(table, "t")
    ledger = ledger_of(compared)
    if single and fills(load, at) and not at.others_delete:
        ledger = ledger_of_sums(next(iter(at.records)), own, load.rows(at, near=True), table)
    return MergePlan(
        _unseen(wanted) if at.newer and not (full or at.replaced or several) else compared,
        identity=table.identity,
        valid=f"CASE WHEN s._full THEN {seen} <=> s._seen ELSE {seen} < s._order END",
        ledger=ledger,
    )


def _only(changes: DataFrame, table: Table, prefix: str) -> DataFrame:
    """The columns of :func:`_newest`, if each key has one change."""
    one = F.lit(1)
    return _ordered(changes, table, prefix, [*table.identity, "_window"]).withColumns(
        {f"_{prefix}_rows": one, f"_{prefix}_distinct": one}
    )


def _newest(changes: DataFrame, table: Table, prefix: str, *, per_window: bool = False) -> DataFrame:
    """Per key (and window): the newest change's order and row, the number of changes, and how many differ.

    The changes of a key are ranked by their order, so that the last one has all these values. This sorts once;
    aggregates over structs with a distinct count would sort three times and shuffle twice.
    """
    places = [*table.identity, *(["_window"] if per_window else [])]
    ordered = _ordered(changes, table, prefix, places)
    in_order = Over.partitionBy(*map(col, places)).orderBy(f"_{prefix}_order")
    ranked = ordered.withColumns(
        {
            f"_{prefix}_rows": F.row_number().over(in_order),
            f"_{prefix}_distinct": F.dense_rank().over(in_order),
            "_has_next": F.lead(F.lit(True), 1, False).over(in_order),
        }
    )
    return ranked.filter(~F.col("_has_next")).drop("_has_next")


def _ordered(changes: DataFrame, table: Table, prefix: str, places: Sequence[str]) -> DataFrame:
    """Each change's order and row, in the columns of :func:`_newest`."""
    return changes.alias("log").select(
        *(col(name, "log") for name in places),
        log_order(table).alias(f"_{prefix}_order"),
        F.struct(*(col(name, "log") for name in table.columns)).alias(f"_{prefix}_row"),
    )


def _against_deletes(changes: DataFrame, mine: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """Incremental fold: the windows' newest change, unless the log has a newer delete."""
    best = F.col("_mine_order")
    if len(at.records) > 1:
        best = F.max("_mine_order").over(Over.partitionBy(*map(col, table.identity)))
    order = best
    if at.others_delete:
        newest = _newest_delete(changes, table, at)
        mine = mine.withColumn("_best", best).join(newest, list(table.identity), "left")
        order = F.greatest("_delete_order", "_best")
        if table.changes.empties:
            mine = mine.crossJoin(F.broadcast(_newest_truncate(changes, table, at)))
            order = F.greatest("_truncate_order", order)
    return mine.select(
        *map(col, table.identity),
        "_window",
        order.alias("_order"),
        F.col("_mine_row").alias("_row"),
        F.lit(False).alias("_full"),
        "_mine_order",
        F.col("_mine_rows").alias("_rows"),
        F.col("_mine_distinct").alias("_distinct"),
    )


def _newest_delete(changes: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """The newest delete of other windows, per key."""
    deletes = near(changes.filter((F.col("_kind") == DELETE) & ~F.col("_window").isin(*at.records)), table, at)
    if firsts := at.first_sequences:
        oldest = F.expr(oldest_sql(table, firsts))
        deletes = deletes.filter(col(table.changes.sequence_by[0]) >= oldest)  # older ones have no effect
    return (
        deletes.alias("log")
        .select(*(col(name, "log") for name in table.identity), log_order(table).alias("_o"))
        .groupBy(*map(col, table.identity))
        .agg(F.max("_o").alias("_delete_order"))
    )


def _newest_truncate(changes: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """The newest truncate of other windows; windows with a truncate of their own are folded by column."""
    others = changes.filter(F.col("_kind").isin(*EMPTIES) & ~F.col("_window").isin(*at.records))
    return others.alias("log").agg(F.max(truncate_order(table)).alias("_truncate_order"))


def _folded(changes: DataFrame, keys: DataFrame, mine: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """Full fold of the keys (in windows), from all their changes in the log."""
    identity = list(table.identity)
    history = near(changes.filter(F.col("_kind").isin(*UPSERTS, DELETE)), table, at).join(keys, identity, "left_semi")
    newest = _newest(history, table, "all")
    return (
        keys.join(newest, identity, "left")
        .join(mine, [*identity, "_window"], "left")
        .select(
            *map(col, identity),
            "_window",
            F.col("_all_order").alias("_order"),
            F.col("_all_row").alias("_row"),
            F.lit(True).alias("_full"),
            "_mine_order",
            F.coalesce("_mine_rows", F.lit(0)).alias("_rows"),
            F.coalesce("_mine_distinct", F.lit(0)).alias("_distinct"),
        )
    )


def _present(load: LoadContext, at: ReadView, concerned: DataFrame) -> DataFrame:
    """The orders of the table's rows in the partitions that the windows touch."""
    table = load.table
    return (
        of_keys(load.rows(at, near=True), concerned, table, at)
        .alias("t")
        .select(*(col(name, "t") for name in table.identity), F.expr(row_order_sql(table, "t")).alias("_seen"))
    )


def _unseen(wanted: DataFrame) -> DataFrame:
    """The actions as if the table had none of the keys; the MERGE itself finds the rows that exist."""
    action = F.when(_is_gone(F.col("_order")), "delete").otherwise("insert")
    return wanted.withColumns({"_action": action, "_seen": F.lit(None)})


def _is_gone(order: Column) -> Column:
    return order.isNull() | order.getField("delete") | order.getField("hash").isNull()


def _compared(wanted: DataFrame, present: DataFrame, table: Table) -> DataFrame:
    both = wanted.join(present, list(table.identity), "left")
    order = F.col("_order")
    gone, absent = _is_gone(order), F.col("_seen").isNull()
    older = F.col("_seen") < F.col("_order")
    sequence = [F.col("_seen")[f"s{i}"].eqNullSafe(order[f"s{i}"]) for i in range(len(table.changes.sequence_by))]
    tied = all_of([F.col("_seen").isNotNull(), ~gone, F.col("_seen") > order, *sequence])
    differs = ~F.col("_seen").eqNullSafe(F.col("_order"))
    overtaken = ~F.col("_full") & F.col("_seen").isNotNull() & (F.col("_seen") > F.col("_order"))
    in_effect = F.coalesce((F.col("_mine_order") == F.col("_order")) & ~overtaken, F.lit(False))
    settled = F.when(in_effect, "same").otherwise("stale")
    fast = (
        F.when(gone & ~absent & older, "delete")
        .when(~gone & absent, "insert")
        .when(~gone & older, "update")
        .when(absent | ~differs, settled)
        .when(tied, UNKNOWN)
        .otherwise("stale")
    )
    fully = (
        F.when(gone & ~absent, "delete")
        .when(~gone & absent, "insert")
        .when(~gone & differs, "update")
        .otherwise(settled)
    )
    return both.withColumn("_action", F.when(~F.col("_leads"), settled).when(F.col("_full"), fully).otherwise(fast))


def ledger_of(actions: DataFrame) -> DataFrame:
    """The ledger: counts of changes per key and window."""
    in_effect, has_change = F.col("_action") == "same", F.col("_mine_order").isNotNull()
    present = in_effect & F.col("_seen").isNotNull()
    columns = entry(
        keys=F.lit(1),
        pending=F.col("_action").isin(*PENDING, UNKNOWN),
        applied=has_change & in_effect,
        stale=F.when(has_change, F.col("_distinct") - in_effect.cast("long")),
        duplicate=F.when(has_change, F.col("_rows") - F.col("_distinct")),
        present=present,
        log_hash=F.when(present, F.col("_mine_order").getField("hash")),
        table_hash=F.when(present, F.col("_seen").getField("hash")),
    )
    return actions.select(*columns)

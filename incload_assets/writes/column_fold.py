"""Column fold: folds keys by column, for soft deletes, partial changes and truncates.

It always reads all changes of its keys, because their newest change alone does not determine the row. A deletion, which
is a delete of the key or a truncate of the table, discards earlier values: values come only from changes between the
key's newest upsert and the newest deletion before it. Each column has the value of the newest of these changes that
sets it. If the newest of them gave the row a new key, the column has the value of the row under its old key (see
:mod:`incload_assets.writes.key_moves`). The result is a function of the set of the key's changes in the log, and so
independent of the order of loads.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import (
    DELETE,
    EMPTIES,
    MOVED,
    REPLACED,
    TRUNCATE,
    UPSERTS,
    log_order,
    sets,
    truncate_order,
)
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView, near, of_keys
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import all_of, any_of, col, content_hash_sql
from incload_assets.writes.key_moves import Moves, links_of
from incload_assets.writes.plan import PENDING, MergePlan, entry


def column_plan(load: LoadContext, at: ReadView, *, soft_delete: str | None) -> MergePlan:
    """The merge plan for the keys of a read view's windows; for all keys if a truncate was added or withdrawn.

    Rows whose newest change is a deletion are marked in the column ``soft_delete``; None: they are deleted.
    """
    table = load.table
    changes = load.near_changes(at)
    here = changes.filter(F.col("_window").isin(*at.records))
    truncates = changes.filter(F.col("_kind").isin(*EMPTIES)) if table.changes.empties else None
    keys, handed_on = _keys(changes, here, table), None
    if at.moves and table.changes.moved_when:
        moves = Moves(links_of(changes, truncates, table), table)
        if at.replaced:  # by a withdrawn delete no key is linked any more
            moved = changes.filter(F.col("_kind") == MOVED)
            keys = _of_one_window(moved, here, table).unionByName(keys).distinct()
        keys = moves.heirs(keys)
        handed_on = moves.inherited(changes, keys)
    states = _states(near(changes, table, at), keys, truncates, handed_on, table, soft_delete)
    actions = _actions(load, at, keys, states)
    ledger = _ledger(here, actions, table)
    if truncates is not None:
        ledger = ledger.unionByName(_truncate_ledger(here, truncates, table))
    return MergePlan(
        actions,
        identity=table.identity,
        valid=f"{content_hash_sql(table.schema.names, 't')} <=> s._seen",
        ledger=ledger,
    )


def _keys(changes: DataFrame, here: DataFrame, table: Table) -> DataFrame:
    place, has_key = [*map(col, table.identity), F.col("_window")], col(table.identity[0]).isNotNull()
    keys = here.filter(F.col("_kind").isin(*UPSERTS, DELETE, REPLACED) & has_key).select(*place)
    if table.changes.empties:  # a marker without a key represents a withdrawn truncate
        truncated = here.filter(F.col("_kind").isin(*EMPTIES) | ((F.col("_kind") == REPLACED) & ~has_key))
        if not truncated.isEmpty():
            every = changes.filter(F.col("_kind").isin(*UPSERTS, DELETE))
            keys = keys.unionByName(_of_one_window(every, truncated, table))
    return keys.distinct()


def _of_one_window(changes: DataFrame, here: DataFrame, table: Table) -> DataFrame:
    """The keys of changes of any window, assigned to one of the plan's windows."""
    [row] = here.agg(F.min("_window").alias("first")).head(1)
    return changes.select(*map(col, table.identity), F.lit(row["first"]).alias("_window"))


def _key_history(
    changes: DataFrame, keys: DataFrame, truncates: DataFrame | None, handed_on: DataFrame | None, table: Table
) -> DataFrame:
    """The upserts and deletes of the keys, inherited ones included, with orders of other changes of the key.

    ``_order`` is the order of the change; ``_path``, the orders of the moves that brought it here from other keys, and
    then its own; ``_last``, the order of the key's newest upsert; ``_before``, that of the newest deletion before this
    upsert; ``_ended``, that of the key's newest deletion.
    """
    identity = list(table.identity)
    concerned = keys.select(*map(col, identity)).distinct()
    kept = changes.filter(F.col("_kind").isin(*UPSERTS, DELETE)).join(concerned, identity, "left_semi").alias("log")
    key, order = Over.partitionBy(*map(col, identity)), F.col("_order")
    deletes = F.col("_kind") == DELETE
    own = kept.select(
        *(col(name, "log") for name in table.columns), "_kind", *_unset(table), log_order(table).alias("_order")
    ).withColumn("_path", F.array(order))
    history = (
        (own if handed_on is None else own.unionByName(handed_on.withColumn("_path", F.array_append("_path", order))))
        .withColumn("_last", F.max(F.when(~deletes, order)).over(key))
        .withColumn("_before", F.max(F.when(deletes & (order < F.col("_last")), order)).over(key))
        .withColumn("_ended", F.max(F.when(deletes, order)).over(key))
    )
    if truncates is None:
        return history
    all_truncates = truncates.alias("log").agg(F.collect_set(truncate_order(table)).alias("_truncates"))
    earlier = F.filter("_truncates", lambda truncate: truncate < F.col("_last"))
    return (
        history.crossJoin(F.broadcast(all_truncates))
        .withColumn("_before", F.greatest("_before", F.array_max(earlier)))
        .withColumn("_ended", F.greatest("_ended", F.array_max("_truncates")))
        .drop("_truncates")
    )


def _unset(table: Table) -> list[str]:
    return ["_unset"] if table.by_column else []


def _states(
    changes: DataFrame,
    keys: DataFrame,
    truncates: DataFrame | None,
    handed_on: DataFrame | None,
    table: Table,
    soft_delete: str | None,
) -> DataFrame:
    """The correct state of each key in the table.

    ``_row`` is the correct row; ``_exists``, whether the table should have it; ``_waiting``, whether only values are
    missing; ``_sources``, the orders of the upserts that the row is made of; ``_last`` and ``_ended`` are as in
    ``_key_history``.
    """
    history = _key_history(changes, keys, truncates, handed_on, table)
    order, last, ended = F.col("_order"), F.col("_last"), F.col("_ended")
    enter = F.col("_path")[0]
    lives = F.col("_kind").isin(*UPSERTS) & (F.col("_before").isNull() | (enter > F.col("_before")))
    fixed = {*table.identity, *table.changes.sequence_by}
    free = [name for name in table.columns if name not in fixed]
    sources, unknown = [], []
    if table.by_column:
        setting = {name: F.when(lives & (sets(name) | (F.col("_kind") == MOVED)), _rank(sets(name))) for name in free}
        values = [F.max_by(col(name), setting[name]).alias(f"_v{i}") for i, name in enumerate(free)]
        sources = [F.max(setting[name])["path"][0] for name in free]
        unknown = [~F.coalesce(F.max(setting[name])["known"], F.lit(True)) for name in free]
    else:
        newest = F.when(order == last, order)
        values = [F.max_by(col(name), newest).alias(f"_v{i}") for i, name in enumerate(free)]
    folded = history.groupBy(*map(col, table.identity)).agg(
        *values,
        F.first("_last").alias("_last"),
        F.first("_ended").alias("_ended"),
        F.array(F.first("_last"), *sources).alias("_sources"),
        any_of(unknown).alias("_unknown"),
    )
    is_deleted = F.coalesce(ended > last, F.lit(False))
    of = F.when(is_deleted, ended).otherwise(last) if soft_delete else last
    value = {name: F.col(f"_v{i}") for i, name in enumerate(free)}
    value |= {
        name: of.getField(f"s{i}") for i, name in enumerate(table.changes.sequence_by) if name not in table.identity
    }
    row = [value.get(name, col(name)).alias(name) for name in table.columns]
    required = {field.name for field in table.contract.fields if not field.nullable} if table.by_column else set()
    complete = all_of([*(value[name].isNotNull() for name in free if name in required), ~F.col("_unknown")])
    alive = last.isNotNull() & (F.lit(soft_delete is not None) | ~is_deleted)
    return folded.select(
        *map(col, table.identity),
        F.struct(*row, *([is_deleted.alias(soft_delete)] if soft_delete else [])).alias("_row"),
        (alive & complete).alias("_exists"),
        (alive & ~complete).alias("_waiting"),
        F.when(alive, F.array_compact("_sources")).alias("_sources"),
        "_last",
        "_ended",
    )


def _rank(known: Column) -> Column:
    """The rank of a change among those that may set a column.

    A move that has the column's value ranks above all changes inherited through it; a move without it ranks below them.
    """
    path = F.col("_path")
    return F.struct(
        F.when(known, F.array_append(path, F.col("_order"))).otherwise(path).alias("path"), known.alias("known")
    )


def _actions(load: LoadContext, at: ReadView, keys: DataFrame, states: DataFrame) -> DataFrame:
    table, identity = load.table, list(load.table.identity)
    rows = load.rows(at, near=True)
    if not table.changes.empties:  # a truncate affects more keys than the windows have rows
        rows = of_keys(rows, keys, table, at)
    present = rows.select(*map(col, identity), F.expr(content_hash_sql(table.schema.names)).alias("_seen"))
    both = keys.join(states, identity, "left").join(present, identity, "left")
    wanted = F.when(F.coalesce("_exists", F.lit(False)), F.expr(content_hash_sql(table.schema.names, "_row")))
    first = Over.partitionBy(*map(col, identity)).orderBy("_window")  # only one window of the key gets its action
    leads = F.row_number().over(first) == 1 if len(at.records) > 1 else F.lit(True)
    wants, has = F.col("_wanted").isNotNull(), F.col("_seen").isNotNull()
    action = (
        F.when(~leads, "same")
        .when(wants & ~has, "insert")
        .when(~wants & has, "delete")
        .when(wants & (F.col("_wanted") != F.col("_seen")), "update")
        .otherwise("same")
    )
    return both.withColumn("_wanted", wanted).withColumn("_action", action)


def _ledger(here: DataFrame, actions: DataFrame, table: Table) -> DataFrame:
    place = [*table.identity, "_window"]
    mine = (
        here.alias("log")
        .filter(F.col("_kind").isin(*UPSERTS, DELETE))
        .select(*(col(name, "log") for name in place), "_kind", *_unset(table), log_order(table).alias("_order"))
        .groupBy(*map(col, place), "_kind", *_unset(table), "_order")
        .agg(F.count(F.lit(1)).alias("_times"))
        .groupBy(*map(col, place))
        .agg(F.collect_list(F.struct("_kind", "_order", "_times")).alias("_mine"))
    )
    last, ended = F.col("_last"), F.col("_ended")

    def is_source(change: Column) -> Column:
        return (change["_kind"] != DELETE) & F.array_contains("_sources", change["_order"])

    def is_applied(change: Column) -> Column:
        deletes = (change["_kind"] == DELETE) & (change["_order"] == ended) & (last.isNull() | (ended > last))
        return deletes | (is_source(change) & F.col("_exists"))

    applied = _count(F.filter("_mine", is_applied))
    waiting = F.when(F.col("_waiting"), _count(F.filter("_mine", is_source))).otherwise(0)
    is_newest = F.exists("_mine", lambda change: is_source(change) & (change["_order"] == last))
    present = is_newest & (F.col("_wanted") == F.col("_seen"))
    more = F.aggregate("_mine", F.lit(0).cast("long"), lambda sum, change: sum + change["_times"] - 1)
    columns = entry(
        keys=F.lit(1),
        pending=F.col("_action").isin(*PENDING),
        applied=applied,
        waiting=waiting,
        stale=_count(F.col("_mine")) - applied - waiting,
        duplicate=more,
        present=present,
        log_hash=F.when(present, F.col("_wanted")),
        table_hash=F.when(present, F.col("_seen")),
    )
    return actions.join(mine, place, "left").select(*columns)


def _count(changes: Column) -> Column:
    return F.coalesce(F.array_size(changes), F.lit(0))


def _truncate_ledger(here: DataFrame, truncates: DataFrame, table: Table) -> DataFrame:
    """The ledger of truncates: the newest is in effect, the others are stale."""
    newest = truncates.alias("log").agg(F.max(truncate_order(table)).alias("_newest"))
    mine = here.filter(F.col("_kind") == TRUNCATE).alias("log").select("_window", truncate_order(table).alias("_order"))
    counted = mine.groupBy("_window", "_order").count().crossJoin(F.broadcast(newest))
    applied = F.col("_order").eqNullSafe(F.col("_newest"))
    return counted.select(*entry(applied=applied, stale=~applied, duplicate=F.col("count") - 1))

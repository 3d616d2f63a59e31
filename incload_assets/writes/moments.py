"""Moments: the state of a key at each value of its first sequence column, from its changes.

A moment is what the changes with one value of the first sequence column say together. Of whole rows it is the newest of
them. Of changes that set some columns it is what is known after the newest of them, column by column: the value of the
newest change that set the column, at this moment or before it. A delete ends what was known, so no value from before it
shows after it. As long as a column that the contract requires was never set, the key has no row.

So a moment depends only on the set of the key's changes, and the last one is the row that
:class:`~incload_assets.assets.Merge` makes of them.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import log_order, sets
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import all_of, col


def moments_of(history: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """The moments of keys, per key and time ``_at``, from all their upserts and deletes.

    ``_order`` is the order of the moment's newest change; ``_content``, the key's state as a struct of the contract's
    columns; ``_shows``, whether the key has a row. ``_counts`` is an array of structs about the changes of the read
    view's windows: window ``_mine``, ``_order``, and the numbers ``_rows``, ``_distinct``, ``_applied``, ``_waiting``.
    """
    return _of_columns(history, table, at) if table.by_column else _of_rows(history, table, at)


def _place(table: Table) -> list[Column]:
    return [*map(col, table.identity), F.col("_lead")]


def _logged(history: DataFrame, table: Table, at: ReadView, *more: Column) -> DataFrame:
    rows = history.alias("log").select(
        *_place(table),
        F.when(F.col("_window").isin(*at.records), F.col("_window")).alias("_mine"),
        col(table.changes.sequence_by[0], "log").alias("_at"),
        log_order(table).alias("_order"),
        F.struct(*(col(name, "log") for name in table.columns)).alias("_content"),
        *more,
    )
    return rows.repartition(*map(col, table.identity))  # all further steps are per key, so one shuffle is enough


def _of_rows(history: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """The moments of whole rows: the newest change counts, the others are stale."""
    place = _place(table)
    here = (
        _logged(history, table, at)
        .groupBy(*place, "_at", "_mine")
        .agg(
            F.max("_order").alias("_order"),
            F.max_by("_content", "_order").alias("_content"),
            F.count(F.lit(1)).alias("_rows"),
            F.count_distinct("_order").alias("_distinct"),
        )
        .withColumn("_counts", F.when(F.col("_mine").isNotNull(), F.struct("_mine", "_rows", "_distinct", "_order")))
    )
    moments = here.groupBy(*place, "_at").agg(
        F.max("_order").alias("_order"),
        F.max_by("_content", "_order").alias("_content"),
        F.collect_list("_counts").alias("_counts"),  # skips NULLs
    )

    def counted(change: Column) -> Column:
        is_newest = change["_order"] == F.col("_order")
        return change.withField("_applied", is_newest.cast("long")).withField("_waiting", F.lit(0).cast("long"))

    return moments.withColumns(
        {"_shows": ~F.col("_order").getField("delete"), "_counts": F.transform("_counts", counted)}
    )


def _of_columns(history: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """The moments of changes that set some columns.

    A change is applied if the state has a value or its sequence from it, or if it is the delete before it. A moment
    that lacks a required column counts as part of the first one of its life that lacks none: a change is applied if
    that one has a value from it. Until there is such a moment, the changes that it would have values from are waiting.
    """
    place, identity = _place(table), [*map(col, table.identity)]
    here = (
        _with_states(_logged(history, table, at, F.col("_unset")), table)
        .groupBy(*place, "_at", "_mine", "_order", "_life")
        .agg(
            F.first("_state").alias("_state"),
            F.count(F.lit(1)).alias("_rows"),
            F.size(F.collect_set("_unset")).cast("long").alias("_distinct"),
        )
        .withColumn(
            "_counts", F.when(F.col("_mine").isNotNull(), F.struct("_mine", "_rows", "_distinct", "_order", "_life"))
        )
    )
    moments = here.groupBy(*place, "_at").agg(
        F.max("_order").alias("_order"),
        F.max_by("_state", "_order").alias("_state"),
        F.collect_list("_counts").alias("_counts"),
    )
    shows, life = F.col("_state.shows"), F.col("_state.life")
    from_the_end = Over.partitionBy(*identity, life).orderBy(F.desc_nulls_last("_at"))
    completed = F.last(F.when(shows, F.col("_state.sources")), ignorenulls=True).over(from_the_end)
    so_far = F.first("_state.sources").over(from_the_end)

    def counted(change: Column) -> Column:
        ends = change["_order"].getField("delete")
        counts = (change["_life"] == life) & (ends | F.array_contains("_sources", change["_order"]))
        settled, none = ends | F.col("_known"), F.lit(0).cast("long")
        applied, waiting = (F.when(counts & when, change["_distinct"]).otherwise(none) for when in (settled, ~settled))
        return change.withField("_applied", applied).withField("_waiting", waiting)

    return (
        moments.withColumns({"_sources": F.coalesce(completed, so_far), "_known": completed.isNotNull()})
        .withColumns({"_shows": shows, "_content": F.col("_state.content"), "_counts": F.transform("_counts", counted)})
        .select(*place, "_at", "_order", "_content", "_shows", "_counts")
    )


def _with_states(changes: DataFrame, table: Table) -> DataFrame:
    """The changes with their ``_life``, the time between two deletes, and the ``_state`` of the key after each of them.

    The state is a struct: ``content``, the contract's columns; ``shows``, whether it is a row; ``sources``, the orders
    of the change itself and of the changes that set its columns; ``life``.
    """
    fixed = {*table.identity, *table.changes.sequence_by}
    free = [name for name in table.columns if name not in fixed]
    required = {field.name for field in table.contract.fields if not field.nullable}
    is_delete = F.col("_order").getField("delete")
    in_order = Over.partitionBy(*map(col, table.identity)).orderBy("_order")  # changes of equal order see each other
    lives = changes.withColumns(
        {
            "_unset": F.array_sort(F.coalesce("_unset", F.array().cast("array<string>"))),
            "_life": F.count(F.when(is_delete, 1)).over(in_order),
        }
    )
    given = [F.struct("_life", "_order", F.col("_content").getField(name).alias("value")) for name in free]
    sets_it = [F.when(sets(name) & ~is_delete, change) for name, change in zip(free, given, strict=True)]
    newest = {f"_last{i}": F.last(change, ignorenulls=True).over(in_order) for i, change in enumerate(sets_it)}
    setting = {
        name: F.when(F.col(f"_last{i}")["_life"] == F.col("_life"), F.col(f"_last{i}")) for i, name in enumerate(free)
    }
    value = {name: change["value"] for name, change in setting.items()}
    content = [value.get(name, F.col("_content").getField(name)).alias(name) for name in table.columns]
    sources = F.array("_order", *(change["_order"] for change in setting.values()))
    state = F.struct(
        F.struct(*content).alias("content"),
        all_of([~is_delete, *(value[name].isNotNull() for name in free if name in required)]).alias("shows"),
        F.array_distinct(F.array_compact(sources)).alias("sources"),
        F.col("_life").alias("life"),
    )
    kept = [*_place(table), *map(F.col, ("_at", "_mine", "_order", "_unset", "_life"))]
    return lives.withColumns(newest).select(*kept, state.alias("_state"))

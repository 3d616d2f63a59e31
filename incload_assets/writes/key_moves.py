"""Rows that get a new key: values that such a change leaves unset are inherited from the row under its old key.

A source reports a new key as a delete of the old key and an upsert of the new one, both with the same sequence. A value
missing from this upsert (PostgreSQL stores large values outside the row, and its log does not repeat them) is in
changes of the old key. The upsert is of the kind *moved*, and together with its delete it is a *link*. A load follows
links both ways: from its keys to the keys that have inherited from them (their heirs), and back to the changes that
these inherit, through as many keys as the row has had. Like every fold this is a function of the set of changes.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, MOVED, UPSERTS, log_order, truncate_order
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import col, union_of

_INFERENCE = "spark.sql.constraintPropagation.enabled"


def links_of(changes: DataFrame, truncates: DataFrame | None, table: Table) -> DataFrame:
    """The moves in the log.

    Args:
        changes: The log.
        truncates: The log's rows that delete everything older; None if there are none.
        table: The declaration.

    Returns:
        ``_from`` and ``_to``, the old and the new key, as structs; ``_at``, struct of the sequence; ``_order``, order
        of the upsert; ``_floor``, order of the last deletion of the old key before the move, NULL if there is none.
    """
    ordered = changes.filter(F.col("_kind").isin(MOVED, DELETE)).alias("log")
    ordered = ordered.select("_kind", _key(table, "log"), log_order(table).alias("_order"))
    ordered = ordered.withColumn("_at", _sequence(F.col("_order"), table))
    deletes = ordered.filter(F.col("_kind") == DELETE)
    moved = ordered.filter(F.col("_kind") == MOVED).select(F.col("_key").alias("_to"), "_at", "_order")
    pairs = moved.join(deletes.groupBy("_at").agg(F.min("_key").alias("_from")), "_at")
    ended = deletes.select(
        F.col("_key").alias("_ended"), F.col("_at").alias("_ended_at"), F.col("_order").alias("_end")
    )
    is_before = (F.col("_ended") == F.col("_from")) & (F.col("_ended_at") < F.col("_at"))
    links = (
        pairs.join(ended, is_before, "left").groupBy("_from", "_to", "_at", "_order").agg(F.max("_end").alias("_floor"))
    )
    if truncates is None:
        return links
    every = truncates.alias("log").agg(F.collect_set(truncate_order(table)).alias("_truncates"))
    earlier = F.filter("_truncates", lambda truncate: _sequence(truncate, table) < F.col("_at"))
    with_them = links.crossJoin(F.broadcast(every))
    return with_them.withColumn("_floor", F.greatest("_floor", F.array_max(earlier))).drop("_truncates")


class Moves:
    """The moves of a log, followed from some keys.

    Each step is a local checkpoint: a plan that joins the log again for each move of a row fills the server's heap
    at some twenty moves. Spark releases a checkpoint once no plan refers to it.

    Args:
        links: The moves, as :func:`links_of` returns them.
        table: The declaration.
    """

    def __init__(self, links: DataFrame, table: Table) -> None:
        self._table = table
        self._links = _checkpoint(links).alias("links")

    def heirs(self, keys: DataFrame) -> DataFrame:
        """The keys and their heirs: columns of the identity, and ``_window``."""
        follows = (F.col("links._from") == F.col("reached._key")) & (
            F.col("reached._at").isNull() | (F.col("links._at") > F.col("reached._at"))
        )

        def step(reached: DataFrame) -> DataFrame:
            further = reached.alias("reached").join(self._links, follows)
            return further.select(F.col("links._to").alias("_key"), "reached._window", "links._at").distinct()

        never = F.lit(None).cast(self._links.schema["_at"].dataType).alias("_at")
        found = self._follow(step(keys.select(_key(self._table), "_window", never)), step)
        if not found:
            return keys
        reached = union_of(found).select("_key.*", "_window")
        return _checkpoint(keys.unionByName(reached).distinct())

    def inherited(self, changes: DataFrame, keys: DataFrame) -> DataFrame | None:
        """The changes that the keys inherit from former keys of their rows; None if there are none.

        Args:
            changes: The log.
            keys: The keys of the plan.

        Returns:
            The table's columns, with the identity of the heir; ``_kind``, ``_unset``, ``_order`` as in the log;
            ``_path``, orders of the moves that brought the change to the heir, newest first.
        """
        of_heir = [F.col("links._from"), F.col("links._at"), F.col("links._floor")]
        is_before = (
            (F.col("links._to") == F.col("legs._from"))
            & (F.col("links._at") < F.col("legs._at"))
            & (F.col("legs._floor").isNull() | (F.col("links._order") > F.col("legs._floor")))
        )

        def step(legs: DataFrame) -> DataFrame:
            further = legs.alias("legs").join(self._links, is_before)
            return further.select(
                "legs._key", F.array_append("legs._path", F.col("links._order")).alias("_path"), *of_heir
            )

        concerned = keys.select(_key(self._table)).distinct()
        last = self._links.join(concerned, F.col("links._to") == F.col("_key"))
        found = self._follow(last.select("_key", F.array("links._order").alias("_path"), *of_heir), step)
        if not found:
            return None
        return _checkpoint(_inherited_changes(changes, union_of(found), self._table))

    def _follow(self, start: DataFrame, step: Callable[[DataFrame], DataFrame]) -> list[DataFrame]:
        """All frames reached step by step until one is empty. Each has few rows, in strictly ordered time."""
        found, reached = [], _checkpoint(start)
        while not reached.isEmpty():
            found.append(reached)
            reached = _checkpoint(step(reached))
        return found


def _checkpoint(frame: DataFrame) -> DataFrame:
    """The rows of a frame, kept by Spark without the plan that made them.

    Spark keeps what it has inferred about them, too, by columns of that plan, and fails where a union looks these up.
    So it infers nothing meanwhile. The client of Spark Connect takes the checkpoint to be in the thread's active
    session, if there is one, not in the frame's. So the frame's is active meanwhile.
    """
    session: Any = frame.sparkSession
    active = getattr(session, "_active_session", SimpleNamespace())  # of the thread; nothing without Spark Connect
    before = getattr(active, "session", None)
    session.conf.set(_INFERENCE, "false")
    active.session = session
    try:
        return frame.localCheckpoint()
    finally:
        active.session = before
        session.conf.set(_INFERENCE, "true")


def _inherited_changes(changes: DataFrame, legs: DataFrame, table: Table) -> DataFrame:
    """The upserts of former keys, from the time in which the row had the key."""
    upserts = changes.filter(F.col("_kind").isin(*UPSERTS)).alias("log")
    former = upserts.select(
        _key(table, "log").alias("_of"),
        *(col(name, "log") for name in table.columns if name not in table.identity),
        "_kind",
        "_unset",
        log_order(table).alias("_order"),
    )
    floor, order = F.col("_floor"), F.col("_order")
    while_it_was = (_sequence(order, table) < F.col("_at")) & (floor.isNull() | (order > floor))
    rows = former.join(F.broadcast(legs), (F.col("_of") == F.col("_from")) & while_it_was)
    of_heir = {name: F.col("_key").getField(name) for name in table.identity}
    columns = [of_heir.get(name, col(name)).alias(name) for name in table.columns]
    return rows.select(*columns, "_kind", "_unset", "_order", "_path")


def _key(table: Table, alias: str | None = None) -> Column:
    return F.struct(*(col(name, alias).alias(name) for name in table.identity)).alias("_key")


def _sequence(order: Column, table: Table) -> Column:
    """The sequence in an order."""
    return F.struct(*(order.getField(f"s{i}").alias(f"s{i}") for i in range(len(table.changes.sequence_by))))

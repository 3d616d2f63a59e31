"""A step that loses, doubles or changes rows is caught by the load itself, or healed, and is never checkpointed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.staged import Staged
from incload_assets.ingest import ingest as landing
from incload_assets.load import apply as applying
from incload_assets.platform.errors import DeclarationError, ReconciliationFailed
from incload_assets.writes import merge
from incload_assets.writes.plan import MergePlan
from tests.support.tables import Loaded, day, item, make

CONTENT = {day(1): [item("1", "a", 1), item("2", "b", 1), item("3", "c", 1)]}
ALL = {("1", "a", 1), ("2", "b", 1), ("3", "c", 1)}
BUT_2 = "id IS DISTINCT FROM '2'"
WAYS = ("merge", "rewrite")
"""How a plan is carried out: the first load, into an empty table, by the second."""

Patch = Callable[[Any, str, Any], None]


def validating_loses_a_row(patch: Patch) -> None:
    validate = landing.validate
    patch(landing, "validate", lambda *args, **options: validate(*args, **options).filter(BUT_2))


def validating_doubles_a_row(patch: Patch) -> None:
    validate = landing.validate
    patch(landing, "validate", lambda *args, **options: with_another(validate(*args, **options)))


def landing_loses_a_row(patch: Patch) -> None:
    write = Staged.write
    patch(Staged, "write", lambda self, rows, *more: write(self, rows.filter(BUT_2), *more))


def landing_doubles_a_row(patch: Patch) -> None:
    write = Staged.write

    def doubling(self: Staged, rows: DataFrame, *more: Any) -> bool:
        return write(self, rows, *more) and write(self, self.read().filter("id = '2'"))

    patch(Staged, "write", doubling)


def the_ledger_forgets_a_key(patch: Patch) -> None:
    plan = Merge.plan

    def forgetful(self: Merge, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        made = plan(self, load, at, full=full)
        return replace(made, ledger=made.ledger.withColumn("_applied", F.lit(0)))

    patch(Merge, "plan", forgetful)


def the_merge_loses_a_row(patch: Patch, *, times: int = 99) -> None:
    broken_merge(patch, lambda actions: actions.filter(BUT_2), times)


def the_merge_deletes_a_row_elsewhere(patch: Patch) -> None:
    afterwards(patch, "DELETE FROM {name} WHERE id = '2'")


def the_merge_writes_an_older_sequence(patch: Patch) -> None:
    wrong = F.col("_row").withField("seq", F.col("_row.seq") - 1)
    broken_merge(patch, lambda actions: actions.withColumn("_row", wrong), 99)


def the_table_gets_a_row_twice(patch: Patch) -> None:
    afterwards(patch, "INSERT INTO {name} SELECT * FROM {name} WHERE id = '2'")


def afterwards(patch: Patch, statement: str) -> None:
    """Somebody changes the table after each commit."""
    for way in WAYS:
        function = getattr(merge, way)

        def meddled(load: LoadContext, at: ReadView, plan: MergePlan, function: Any = function) -> Any:
            done = function(load, at, plan)
            load.spark.sql(statement.format(name=load.lake.sql_name(load.uri)))
            return done

        patch(merge, way, meddled)


def broken_merge(patch: Patch, change: Callable[[DataFrame], DataFrame], times: int) -> None:
    calls: list[ReadView] = []
    for way in WAYS:
        function = getattr(merge, way)

        def broken(load: LoadContext, at: ReadView, plan: MergePlan, function: Any = function) -> Any:
            calls.append(at)
            return function(load, at, replace(plan, actions=change(plan.actions)) if len(calls) <= times else plan)

        patch(merge, way, broken)


def with_another(rows: DataFrame) -> DataFrame:
    return rows.unionByName(rows.filter("id = '2'"))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    monkeypatch.setattr(applying, "MERGES", 3)  # what cannot be repaired need not be tried eight times
    return make(spark, tmp_path, CONTENT)


@pytest.mark.parametrize(
    ("breakage", "error", "message"),
    [
        (validating_loses_a_row, DeclarationError, "made 2 rows of 3"),
        (validating_doubles_a_row, DeclarationError, "made 4 rows of 3"),
        (landing_loses_a_row, ReconciliationFailed, "3 rows were read, but 2 were written"),
        (landing_doubles_a_row, ReconciliationFailed, "3 rows were read, but 4 were written"),
        (the_ledger_forgets_a_key, ReconciliationFailed, "3 rows were read, but 0 applied"),
        (the_merge_loses_a_row, ReconciliationFailed, "still differ after 3 merges"),
        (the_merge_deletes_a_row_elsewhere, ReconciliationFailed, "still differ after 3 merges"),
        (the_merge_writes_an_older_sequence, ReconciliationFailed, "still differ after 3 merges"),
        (the_table_gets_a_row_twice, ReconciliationFailed, "several rows of a key, for example of id"),
    ],
)
def test_a_broken_step_fails_the_load(
    table: Loaded,
    monkeypatch: pytest.MonkeyPatch,
    breakage: Callable[[Patch], None],
    error: type[Exception],
    message: str,
) -> None:
    breakage(monkeypatch.setattr)
    with pytest.raises(error, match=message):
        table.load(1)


def test_a_merge_that_lost_a_row_once_is_made_good_by_the_same_load(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    the_merge_loses_a_row(monkeypatch.setattr, times=1)
    report = table.load(1)
    assert table.rows() == ALL
    assert (report.evidence.applied, report.merged.inserted) == (3, 3)

"""Every way of writing, loaded as people load: by Dagster runs with all checks, one partition or several at once."""

from datetime import date
from pathlib import Path
from tempfile import mkdtemp

import dagster as dg
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import (
    Append,
    Changes,
    Overwrite,
    Quarantine,
    Upstream,
    derived_asset,
    incremental_asset,
)
from incload_assets.platform.settings import Settings
from incload_assets.trial.literal_source import LiteralSource
from tests.support.tables import DAYS, DatedItem, Loaded, day, item
from tests.support.watched import Watched
from tests.writes.case import SEED, Case, crowds
from tests.writes.cases import CASES
from tests.writes.test_conformance import light


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_a_run_with_its_checks_makes_the_table_that_its_changes_make_and_each_check_says_something(
    spark: SparkSession, spark_settings: Settings, case: Case, data: st.DataObject
) -> None:
    contents = crowds() if case.contents is None else case.contents
    held, rewritten = data.draw(contents), data.draw(contents)
    content = {key: held[key] for key in map(day, range(1, 5))}

    def items(changes: DataFrame) -> DataFrame:
        return changes

    declared = incremental_asset(
        source=LiteralSource(content), quarantine=Quarantine(max_share=1.0), code_version="1", **case.declared
    )
    with dg.DagsterInstance.ephemeral() as instance:
        watched = Watched(Path(mkdtemp(prefix="runs-")), spark_settings, instance, [declared(items)])
        table = Loaded(spark, watched.table, watched.lake, content)
        watched.load(day(1))
        assert case.held(table) == case.right(table, {day(1): content[day(1)]})
        watched.load(day(2), day(4))
        assert case.held(table) == case.right(table, content)
        content[day(2)] = rewritten[day(2)]
        watched.load(day(2))
        assert case.held(table) == case.right(table, content)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("keys", [["id", "day"], []], ids=["keys", "no keys"])
def test_a_table_made_of_another_one_is_loaded_by_runs_with_its_checks(
    spark: SparkSession, spark_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    monkeypatch.setenv("INCLOAD_LAKE", str(tmp_path / "lake"))
    content = {day(n): [item(str(n), "a", 1, day=day(n))] for n in (1, 2, 3)}

    def items(changes: DataFrame) -> DataFrame:
        return changes

    def copies(rows: DataFrame) -> DataFrame:
        return rows

    events = incremental_asset(
        partitions_def=DAYS,
        source=LiteralSource(content),
        contract=DatedItem,
        changes=Changes(),
        write=Append(partition_by="day"),
    )(items)
    copied = derived_asset(
        partitions_def=DAYS,
        of={"rows": Upstream(events, partition="day")},
        contract=DatedItem,
        write=Overwrite(partition_by="day"),
        keys=keys,
    )(copies)
    with dg.DagsterInstance.ephemeral() as instance:
        watched = Watched(tmp_path, spark_settings, instance, [copied, events])
        watched.load(day(1), day(3), of=1)
        watched.load(day(1))
        watched.load(day(2), day(3))
        table = Loaded(spark, watched.table, watched.lake, {})
        assert table.rows("id", "day") == {(str(n), date(2026, 1, n)) for n in (1, 2, 3)}

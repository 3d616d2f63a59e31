"""Every way of writing, loaded as people load: by Dagster runs with all checks, one partition or several at once."""

from pathlib import Path
from tempfile import mkdtemp

import dagster as dg
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from incload_assets.loading import Quarantine, incremental_asset
from resources.settings import Settings
from tests.loading.literal_source import LiteralSource
from tests.loading.tables import Loaded, day
from tests.loading.writes.case import SEED, Case, crowds
from tests.loading.writes.cases import CASES
from tests.loading.writes.test_conformance import light
from tests.watched import Watched


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

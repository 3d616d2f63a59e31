"""The plan of loads: what it tells of each, and when it is outdated. Nothing is written, neither lake nor instance."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Overwrite, Upstream, derived_asset
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.what_if.plan_job import plan_job
from incload_assets.what_if.plan_text import counts_of, notes_of, pace_of
from incload_assets.what_if.planned import Follower, Plan
from incload_assets.what_if.planning import check_plan, pending_untouched, plan_loads
from tests.support.guest_table import House, guest, house, key
from tests.what_if.test_preview import content_of

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-08")


class Nights(pa.DataFrameModel):
    """Guests per day."""

    day: T.DateType = pa.Field(nullable=False)
    guests: T.LongType = pa.Field(nullable=False)


@pytest.fixture
def h(tmp_path: Path, spark_settings: Settings) -> Iterator[House]:
    """A house with one loaded day, and another that waits: an update, a move, a new guest, a bad row, a repetition."""
    (tmp_path / "dagster").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance,
        house(tmp_path, spark_settings, instance=instance, partitions_def=DAYS) as h,
    ):
        h.deliver(1, guest("1", "Ada"), guest("2", "Grace"), guest("3", "Barbara"))
        assert h.load(1) == [True]
        h.deliver(
            2,
            guest("1", "Ada L.", room=2, seq=2),
            guest("2", "Hopper", seq=2, day=2),
            guest("3", "Barbara", room=7, seq=0),
            guest("4", "Edsger", day=2),
            guest("5", "Bad", room=0),
        )
        yield h


def stored(h: House) -> tuple[dict[str, str], list[str]]:
    """What lake and instance hold."""
    lines = []
    for path in sorted((h.root / "dagster").rglob("*.db")):
        with sqlite3.connect(path) as database:
            lines += list(database.iterdump())
    return {path: hash for path, hash in content_of(h.lake.root).items() if hash}, lines


def derived(h: House) -> Table:
    """A table derived from the guests."""

    @derived_asset(
        partitions_def=DAYS,
        of={"guests": Upstream(h.asset, partition="day")},
        contract=Nights,
        write=Overwrite(partition_by="day"),
    )
    def nights(guests: DataFrame) -> DataFrame:
        return guests.groupBy("day").agg(F.count("*").alias("guests"))

    table = table_of(nights)
    assert table is not None
    return table


def plan_of(h: House, spark: SparkSession, *numbers: int, values: bool = False) -> Plan:
    keys = [key(number) for number in numbers]
    return plan_loads(spark, h.instance, h.table, h.lake, keys, tables=[h.table, derived(h)], values=values)


def test_a_plan_tells_counts_moves_followers_and_masked_samples_and_writes_nothing(
    h: House, spark: SparkSession
) -> None:
    assert pending_untouched(h.instance, h.table, h.lake) == [key(2)]  # Dagster remembers what it has counted for this
    before = stored(h)
    plan = plan_of(h, spark, 1, 2, 3, values=True)
    assert pending_untouched(h.instance, h.table, h.lake) == [key(2)]
    after = stored(h)
    assert after[0] == before[0]
    assert [line for line in after[1] if line not in before[1]] == []
    same, changed, missing = plan.windows
    assert [window.outcome for window in plan.windows] == ["nothing to do", "changes", "would stop"]
    assert (plan.exit_code, replace(plan, windows=[same]).exit_code, replace(plan, windows=[changed]).exit_code) == (
        1, 0, 2,
    )  # fmt: skip
    assert counts_of(same) == "nothing to do (3 unchanged)"
    assert counts_of(changed).startswith("5 read: 2 inserted, 1 updated, 1 unchanged, 1 stale, 1 quarantined; rewrites")
    assert "nothing for this window" in missing.error and missing.basis is None
    assert changed.moved == 1
    assert changed.followers == [Follower("nights", [key(1), key(2)])]
    [sample] = changed.samples
    assert sample.key == {"id": "1"}
    assert sample.changed == {"name": ("***", "***"), "room": ("1", "2"), "seq": ("1", "2")}
    assert "1 key has its row in another partition of the table" in list(notes_of(changed))
    assert plan.pace is not None and plan.pace.loads == 1 and "1 load" in pace_of(plan)
    assert Plan.of_json(plan.as_json(), "plan.json").as_json() == plan.as_json()
    assert "Ada" not in plan.as_json() and 'samples": []' in plan.without_values().as_json()


def test_samples_hold_no_value_unless_values_are_asked_for(h: House, spark: SparkSession) -> None:
    [sample] = plan_of(h, spark, 2).windows[0].samples
    assert sample.key == {}
    assert sample.changed == dict.fromkeys(("name", "room", "seq"), (None, None))


def test_a_plan_is_outdated_by_its_source_its_code_and_other_loads_and_says_by_which(
    h: House, spark: SparkSession
) -> None:
    plan = plan_of(h, spark, 2)
    check_plan(spark, h.table, h.lake, plan)
    with pytest.raises(IncrementalLoadError, match=r"the code or contract has changed \(1, now 2\)"):
        check_plan(spark, replace(h.table, code_version="2"), h.lake, plan)
    h.deliver(1, guest("1", "Ada"), guest("2", "Grace"))
    h.deliver(2, guest("9"), name="b.json")
    assert h.load(1) == [True]
    with pytest.raises(IncrementalLoadError) as error:
        check_plan(spark, h.table, h.lake, plan)
    assert f"{key(2)}: the source held 1 file" in str(error.value)
    assert f"{key(2)}: another load has changed the part of the table" in str(error.value)
    assert "changed the log" not in str(error.value)
    h.load(2)
    with pytest.raises(IncrementalLoadError, match="another load has changed the log of the partition"):
        check_plan(spark, h.table, h.lake, plan)


def test_the_job_of_the_ui_plans_the_same(h: House) -> None:
    before = stored(h)[0]

    def run(**config: object) -> dg.ExecuteInProcessResult:
        return plan_job([h.table]).execute_in_process(
            instance=h.instance,
            resources=h.resources,
            run_config=config,
            raise_on_error=False,
        )

    done = run(table="guests")
    said = [entry.user_message for entry in h.instance.all_logs(done.run_id)]
    assert done.success and any("5 read: 2 inserted, 1 updated" in line for line in said)
    assert not run(table="guests", partitions=[key(3)]).success
    assert stored(h)[0] == before

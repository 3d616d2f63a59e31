"""What Dagster shows of partitions after real loads: by themselves, in a range, and in a range of which one fails."""

from datetime import timedelta

import dagster as dg
import pytest

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.progress.checkpoint import DATA_VERSION_TAG
from incload_assets.progress.run_tags import RANGE_END_TAG, RANGE_START_TAG
from tests.support.workshop import DAYS, Workshop, day


@pytest.fixture
def loads(workshop: Workshop, spark_settings: Settings) -> "Loads":
    return Loads(workshop, SparkResource(spark=spark_settings.spark, home=str(spark_settings.home)))


class Loads:
    """Loads in this process, as runs of the daemon are."""

    def __init__(self, workshop: Workshop, spark: SparkResource) -> None:
        self.workshop, self.spark = workshop, spark

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        return dg.materialize(
            [self.workshop.asset],
            partition_key=request.partition_key,
            tags=dict(request.tags),
            instance=self.workshop.instance,
            resources={"spark": self.spark, "lake": self.workshop.lake},
            raise_on_error=False,
        )

    def statuses(self) -> dict[str, list[str]]:
        """Partitions by what the UI shows of them."""
        table, instance = self.workshop.table, self.workshop.instance
        found = instance.get_status_by_partition(table.key, DAYS.get_partition_keys(), DAYS) or {}
        shown: dict[str, list[str]] = {}
        for key, status in found.items():
            if status is not None:
                shown.setdefault(status.value, []).append(key)
        return shown

    def versions(self) -> dict[str, str]:
        """The data versions that Dagster holds, by partition."""
        tags = self.workshop.instance.event_log_storage.get_latest_tags_by_partition(
            self.workshop.table.key, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
        )
        return {key: found[DATA_VERSION_TAG] for key, found in tags.items()}

    def fingerprints(self, *numbers: int) -> dict[str, str]:
        """What the source holds."""
        return {w.key: w.position.fingerprint for w in self.workshop.progress() if w.key in map(day, numbers)}


def test_each_partition_shows_how_its_own_load_ended(loads: Loads) -> None:
    workshop = loads.workshop
    workshop.write(1)
    [single] = workshop.tick()
    assert loads.run(single).success
    assert loads.statuses() == {"MATERIALIZED": [day(1)]}
    assert loads.versions() == loads.fingerprints(1)

    for number in (2, 3, 4):
        workshop.write(number, value="forbidden" if number == 3 else "b")
    bounds = {RANGE_START_TAG: day(2), RANGE_END_TAG: day(4)}  # as a backfill from the UI asks for it
    failed = loads.run(dg.RunRequest(tags=bounds))
    assert not failed.success
    assert loads.statuses() == {"MATERIALIZED": [day(1), day(2), day(4)], "FAILED": [day(3)]}
    assert loads.versions() == loads.fingerprints(1, 2, 4)
    assert workshop.tick() == []

    workshop.write(3, value="c")
    [corrected] = workshop.requests(later=timedelta(minutes=2))
    assert corrected.partition_key == day(3)
    assert loads.run(corrected).success
    assert loads.statuses() == {"MATERIALIZED": [day(number) for number in range(1, 5)]}
    assert rows(workshop) == {"1": "a", "2": "b", "3": "c", "4": "b"}


def rows(workshop: Workshop) -> dict[str, str]:
    delta = workshop.lake.delta(workshop.lake.table_uri(["items"]))
    assert delta is not None
    return {row["id"]: row["value"] for row in delta.to_pyarrow_table().to_pylist()}

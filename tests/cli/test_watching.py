"""What happens in a Dagster instance, told in few lines."""

import time

import dagster as dg

from incload_assets.cli.support.watching import Watch
from incload_assets.progress.run_tags import TABLE_TAG

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-05")


@dg.asset(partitions_def=DAYS)
def payments(context: dg.AssetExecutionContext) -> None:
    if context.partition_key == "2026-01-02":
        raise dg.Failure("payments 2026-01-02: the file is torn. Remedy: write it again.\nAnd more.")


def test_the_first_green_partition_and_failures_are_told_at_once_and_the_rest_in_sum() -> None:
    said: list[str] = []
    with dg.instance_for_test() as instance:
        watch = Watch(instance, "http://127.0.0.1:3000", time.monotonic(), said.append)
        _load(instance, "2026-01-01")
        failed = _load(instance, "2026-01-02")
        watch.look()
        assert (said[0].partition(", after")[0], said[1:]) == (
            "✓ The first partition is green: payments 2026-01-01",
            [
                "✗ payments 2026-01-02: the file is torn. Remedy: write it again. "
                f"More: http://127.0.0.1:3000/runs/{failed}"
            ],
        )

        _load(instance, "2026-01-03")
        watch.look()
        watch.look()

        assert len(said) == 2
        assert watch.doing == ""


def test_what_was_loaded_and_failed_before_is_not_told() -> None:
    said: list[str] = []
    with dg.instance_for_test() as instance:
        _load(instance, "2026-01-02")
        time.sleep(0.1)
        Watch(instance, "http://127.0.0.1:3000", time.monotonic(), said.append).look()
    assert said == []


def _load(instance: dg.DagsterInstance, partition: str) -> str:
    done = dg.materialize(
        [payments], partition_key=partition, instance=instance, tags={TABLE_TAG: "payments"}, raise_on_error=False
    )
    return done.run_id

"""Loads of many partitions: few runs, and each partition ends by itself."""

import io
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import DataFrame
from rich.console import Console

from incload_assets.assets import Changes, Files, FullReload, incremental_asset
from incload_assets.checks import checks_for
from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import Loads
from incload_assets.cli.support.project import Project
from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import PARTITION_TAG, RANGE_END_TAG, RANGE_START_TAG
from tests.support.guest_table import DAYS, Guest, House, guest, house, key


@pytest.fixture
def h(tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A house with files of five days."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    with house(tmp_path, spark_settings) as h:
        for number in range(1, 6):
            h.deliver(number, guest(str(number), day=number))
        yield h


def loads(h: House, *partitions: str) -> tuple[Loads, list[str]]:
    """Load partitions as the command does, and the lines that it prints."""
    definitions = dg.Definitions([h.asset], asset_checks=checks_for(h.table), resources=h.resources)
    printed = io.StringIO()
    console = Console(file=printed, width=1000)
    with screen.progress_bar(console) as progress:
        done = Loads(Project(definitions, h.instance, {}), console, progress, len(partitions))
        done.run(h.table, partitions)
        [bar] = progress.tasks
        assert (bar.completed, bar.total) == (len(partitions),) * 2
    return done, printed.getvalue().splitlines()


def runs(h: House) -> list[tuple[str, str, str]]:
    """First and last partition of each run, and how it ended, oldest first."""
    ended = [(run.tags, run.status.value) for run in reversed(h.instance.get_runs())]
    bounds = (RANGE_START_TAG, RANGE_END_TAG)
    return [(*(tags.get(bound) or tags[PARTITION_TAG] for bound in bounds), status) for tags, status in ended]  # type: ignore[misc]


def test_adjacent_partitions_are_one_run_in_which_one_that_fails_stops_no_other(h: House) -> None:
    h.deliver(2, guest("2", room=0, day=2))
    done, lines = loads(h, key(1), key(2), key(3), key(5))
    assert runs(h) == [(key(1), key(3), "FAILURE"), (key(5), key(5), "SUCCESS")]
    marks = list(zip("✓✗✓✓", (1, 2, 3, 5), strict=True))
    assert [line[:19] for line in lines] == [f"{mark} guests {key(day)}" for mark, day in marks]
    assert [outcome.partition for outcome in done.failed] == [key(2)]
    assert "1 of 1 row" in lines[1]
    assert [outcome.counts.get("inserted") for outcome in done.outcomes] == [1, None, 1, 1]
    assert h.instance.get_materialized_partitions(h.table.key) == {key(1), key(3), key(5)}
    assert done.outcomes[0].complaints == ("freshness", "gaps")
    h.deliver(2, guest("2", day=2))
    again, _ = loads(h, key(1), key(2), key(3))
    assert (again.failed, [outcome.counts["inserted"] for outcome in again.outcomes]) == ([], [0, 1, 0])


def test_windows_that_are_not_loaded_together_are_loaded_in_one_run_all_the_same(h: House) -> None:
    @incremental_asset(
        partitions_def=DAYS,
        source=Files("{landing}/guests/{window:%Y-%m-%d}/*.json"),
        contract=Guest,
        changes=Changes(),
        write=FullReload(),
    )
    def guests(changes: DataFrame) -> DataFrame:
        return changes

    whole = House(h.root, h.spark, h.instance, guests)
    done, lines = loads(whole, key(1), key(2))
    assert (done.failed, len(runs(whole)), [line[0] for line in lines]) == ([], 1, ["✓", "✓"])
    delta = whole.lake.delta(whole.lake.table_uri(whole.table.key.path))
    assert delta is not None and delta.to_pyarrow_table()["id"].to_pylist() == ["2"]

"""Each failure mode is there after it was injected, is shown by its sign, and is over after its remedy."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.change_log.context import LoadContext
from incload_assets.checks import check_names
from incload_assets.cli.drill import DAYS, GameDay
from incload_assets.declaration.table import Table
from incload_assets.monitoring.collect import collect
from incload_assets.monitoring.drill.faults import FAULTS, Fault, Record, prepare
from incload_assets.monitoring.facts import gather
from incload_assets.monitoring.metrics import METRICS, samples
from incload_assets.recovery.rebuild import rebuild
from resources.lake import Lake
from resources.settings import Settings
from tests.monitoring.drill.test_runbooks import FAILURES
from tests.support.guest_table import House, guest, house, key

BY_NAME = {fault.runbook: fault for fault in reversed(FAULTS)}
"""The first fault of each section of the runbooks."""


@dataclass
class Rooms:
    """A house as a scratch table: its runs are Dagster's, with all checks."""

    house: House
    windows: Sequence[str] = (key(1), key(2), key(3))

    @property
    def table(self) -> Table:
        return self.house.table

    @property
    def lake(self) -> Lake:
        return self.house.lake

    def deliver(self, window: str, file: str, records: Sequence[Record]) -> None:
        day = int(window[-2:])
        rows = [guest(r["id"], f"{r['name']} {r['id']}", seq=r["seq"], day=day) for r in records]
        self.house.deliver(day, *rows, name=f"{file}.json")

    def load(self, *windows: str) -> bool:
        return all([self.house.run(partition=window).success for window in windows])

    def start(self, window: str) -> "subprocess.Popen[str]":
        raise NotImplementedError

    def forget(self) -> None:
        self.house.instance.wipe_assets([self.table.key])

    def rebuild(self) -> None:
        with self.house.spark.session("rebuild") as spark:
            rebuild(LoadContext(spark, self.table, self.lake), self.house.instance)

    def forgotten(self) -> bool:
        return not {*self.windows} <= set(self.house.instance.get_materialized_partitions(self.table.key))

    def check(self, *names: str) -> None:
        keys = [dg.AssetCheckKey(self.table.key, name) for name in names or check_names(self.table)]
        self.house.run(dg.AssetSelection.checks(*keys))

    def shows(self, fault: Fault) -> bool:
        h = self.house
        collect(h.instance, [h.table], h.lake)
        facts = gather(h.instance, [h.table], h.lake, datetime.now(UTC))
        assert fault.sign is not None
        return fault.sign.shown(samples(facts), h.table.name)


@pytest.fixture
def rooms(tmp_path: Path, spark_settings: Settings) -> Iterator[Rooms]:
    (tmp_path / "dagster").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance,  # an ephemeral one has no sensors
        house(tmp_path, spark_settings, instance=instance) as h,
    ):
        yield Rooms(h)


def test_the_seven_faults_have_their_runbooks_and_signs_that_are_metrics() -> None:
    assert list(dict.fromkeys(fault.runbook for fault in FAULTS)) == list(FAILURES[:7])
    assert sorted({fault.mode for fault in FAULTS}) == [f"F{number}" for number in range(1, 8)]
    metrics = {metric.name: metric.labels for metric in METRICS}
    for fault in FAULTS:
        if fault.sign is not None:
            assert set(fault.sign.query.where) <= {*metrics[fault.sign.query.metric]}, fault.runbook
    sign = BY_NAME["duplicate-writes"].sign
    assert sign is not None
    assert sign.promql == 'min by (table) (incload_check_passed{check="uniqueness"}) <= 0'


def test_faults_are_shown_by_their_signs_and_recovered_by_their_runbooks(rooms: Rooms) -> None:
    prepare(rooms)
    rooms.check()
    for name in ("missed-updates", "duplicate-writes", "schema-break", "checkpoint-loss"):
        fault = BY_NAME[name]
        assert fault.sign is not None
        check = fault.sign.query.where.get("check", "reconciliation")
        assert not rooms.shows(fault), name
        fault.inject(rooms)
        assert fault.is_there(rooms), name
        rooms.check(check)
        assert rooms.shows(fault), name
        fault.remedy(rooms)
        assert not fault.is_there(rooms), name
        rooms.check(check)
        assert not rooms.shows(fault), name


def test_late_rows_are_loaded_and_counted(rooms: Rooms) -> None:
    prepare(rooms)
    fault = BY_NAME["late-arrivals"]
    assert not rooms.shows(fault)
    fault.inject(rooms)
    assert rooms.shows(fault) and not fault.is_there(rooms)


def test_a_row_dated_ahead_is_corrected_at_its_source(rooms: Rooms) -> None:
    prepare(rooms)
    fault = BY_NAME["clock-skew"]
    fault.inject(rooms)
    assert fault.is_there(rooms)
    fault.remedy(rooms)
    assert not fault.is_there(rooms)


@dataclass
class Game:
    """A game day's table as a scratch table: its loads are processes, without Dagster."""

    game: GameDay
    windows: Sequence[str] = DAYS

    @property
    def table(self) -> Table:
        return self.game.table

    @property
    def lake(self) -> Lake:
        return self.game.lake

    def deliver(self, window: str, file: str, records: Sequence[Record]) -> None:
        self.game._deliver(window, file, *((r["id"], r["name"], r["seq"]) for r in records))

    def load(self, *windows: str) -> bool:
        self.game._load(*windows)
        return True

    def start(self, window: str) -> "subprocess.Popen[str]":
        return self.game._process(window)

    def forget(self) -> None:
        raise NotImplementedError  # there is no Dagster

    rebuild = forget

    def forgotten(self) -> bool:
        return False


@pytest.mark.slow
def test_a_load_killed_before_its_merge_is_told_by_the_trace_and_repeated(
    tmp_path: Path, spark_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_SPARK", spark_url)
    scratch = Game(GameDay.begin(Settings(home=tmp_path, spark=spark_url)))
    prepare(scratch)
    fault = BY_NAME["partial-commit"]
    fault.inject(scratch)
    assert fault.is_there(scratch)
    fault.remedy(scratch)
    assert not fault.is_there(scratch)


def test_loads_that_dagster_has_forgotten_are_proven_again(rooms: Rooms) -> None:
    prepare(rooms)
    [fault] = [fault for fault in FAULTS if "forgets" in fault.about]
    fault.inject(rooms)
    assert fault.is_there(rooms)
    fault.remedy(rooms)
    assert not fault.is_there(rooms)

"""The sensor of all tables: each is looked at by itself, and what has not changed costs next to nothing."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Freshness
from incload_assets.automation import looks, watching
from incload_assets.declaration.window import now
from incload_assets.monitoring.facts import Watch, watches
from incload_assets.progress.observed import Observed, Pass, observed_tables, pass_in
from incload_assets.progress.pause import pause, resume
from tests.automation.tower import HangingSource, SilentSource, Tower, named
from tests.support.load_history import tick as record_tick
from tests.support.workshop import Workshop, day, items_asset, partitions

HOUR = timedelta(hours=1)


def settle(folder: Path) -> None:
    """Let everything in a folder be as old as a minute."""
    for path in [folder, *folder.rglob("*")]:
        at = path.stat().st_mtime - 60
        os.utime(path, (at, at))


def test_a_table_of_which_nothing_is_new_is_not_read_and_every_kind_of_news_has_it_read_again(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    for number in (2, 13):
        workshop.write(number)
    workshop.load_all()
    settle(workshop.folder / "landing")
    tower = towers()
    assert tower.requests() == [] and tower.looked == ["items"]
    tower.requests()
    assert tower.requests() == [] and tower.looked == []

    workshop.write(3)  # a new file
    assert tower.requests() == [day(3)]
    assert tower.requests() == [day(3)], "it is requested until a run has it"
    [request] = workshop.requests()
    assert workshop.run(request).success
    settle(workshop.folder / "landing")
    assert tower.requests() == [] and tower.looked == ["items"], "the run is news"
    tower.requests()
    assert tower.requests() == [] and tower.looked == []

    (workshop.folder / "landing" / "items" / day(13) / "part.json").write_text("{}")  # in its place, of a newest window
    settle_folders(workshop)
    assert tower.requests() == [day(13)]
    workshop.load_all()
    settle(workshop.folder / "landing")
    for _ in range(3):
        tower.requests()
    assert tower.looked == []

    workshop.instance.wipe_assets([workshop.table.key])
    assert tower.requests() == [day(2), day(3), day(13)]


def settle_folders(workshop: Workshop) -> None:
    """Give the folders back the times that they had: only a file has changed."""
    for folder in [workshop.folder / "landing" / "items", *(workshop.folder / "landing" / "items").iterdir()]:
        at = folder.stat().st_mtime
        os.utime(folder, (at, at))


def test_a_file_that_is_written_again_in_its_place_is_found_by_a_close_look(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    for number in range(1, 8):
        workshop.write(number)
    workshop.load_all()
    settle(workshop.folder / "landing")
    tower = towers()
    [one] = tower.watching
    assert tower.requests() == []
    tower.requests()
    assert tower.requests() == [] and tower.looked == []
    one.closely.took(1000)
    workshop.write(1, "b")
    assert tower.requests() == [] and tower.looked == []
    one.closely.took(0)
    assert tower.requests() == [day(1)]


def test_sources_that_hang_or_fail_delay_no_other_table_and_are_not_asked_twice_at_once(
    workshop: Workshop, towers: Callable[..., Tower], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, seconds in (("PATIENCE", 5.0), ("SLOW", 1.0)):
        monkeypatch.setattr(watching, limit, seconds)
    answers = Event()
    hanging = [HangingSource({}) for _ in range(10)]
    for source in hanging:
        object.__setattr__(source, "answers", answers)
    tower = towers(
        *(items_asset(name=f"hangs_{number}", source=source) for number, source in enumerate(hanging)),
        items_asset(name="down", source=SilentSource({})),
    )
    workshop.write(3)
    assert tower.requests() == [day(3)]
    assert sorted(tower.looked) == ["down", *(f"hangs_{number}" for number in range(10)), "items"]
    assert tower.requests() == [day(3)]
    assert sorted(tower.looked) == ["down", "items"]

    kept = observed_tables(workshop.instance, tower.tables)
    assert set(kept) == {"items", "down"}
    assert kept["down"].trouble.startswith("down: the shop's database does not answer")
    [request] = workshop.requests()
    assert workshop.run(request).success
    told = tower.tick().skip_message
    assert "down: the shop's database does not answer" in told
    assert "still looking at hangs_0, hangs_1" in told
    last = pass_in(tower.cursor)
    assert last is not None and last.last_look("hangs_0") is None and last.last_look("items") is not None

    answers.set()
    for one in tower.watching:
        while one.look is not None and not one.look.has_ended:
            time.sleep(0.05)
    tower.tick()
    assert {one.table.name for one in tower.watching if one.look is not None} == set()
    assert set(observed_tables(workshop.instance, tower.tables)) == {table.name for table in tower.tables}


def test_what_monitoring_reads_of_each_table_is_of_the_last_look_at_it(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    down = items_asset(name="down", source=SilentSource({}))
    tower = towers(down)
    tower.tick()
    items, _ = tower.tables
    last = pass_in(tower.cursor)
    assert last is not None
    record_tick(workshop.instance, items, observed_tables(workshop.instance, [items])["items"])
    seen = watches(workshop.instance, tower.tables)
    assert (seen["items"].failed, seen["items"].trouble) == (False, "")
    assert (seen["down"].success, seen["down"].seen, seen["down"].failed) == (None, None, True)
    assert seen["down"].trouble.startswith("down: the shop's database does not answer")
    assert set(seen) == {"items", "down"}


def test_a_table_that_was_never_looked_at_is_not_one_of_the_sensor_of_another_code_location(workshop: Workshop) -> None:
    """Its own location has been loaded for the first time, and the sensor of that location is off."""
    at = now()
    [items, new] = [named(asset) for asset in (workshop.asset, items_asset(name="new"))]
    record_tick(workshop.instance, items, Observed(at=at.isoformat(), location="shop"))
    assert watches(workshop.instance, [items, new]) == {}
    [state] = workshop.instance.all_instigator_state()
    location = state.origin.repository_origin.code_location_origin.location_name
    record_tick(workshop.instance, items, Observed(at=at.isoformat(), location=location))
    assert set(watches(workshop.instance, [items, new])) == {"items", "new"}


def test_a_late_table_becomes_later_though_its_observation_is_kept_only_when_it_changes() -> None:
    at = now()
    observed = Observed(at=at.isoformat(), verdict="late", overdue=60.0)
    assert observed.seen_at(at + HOUR).overdue == 3660.0
    assert observed.seen_at(at + HOUR).says_the_same(observed)
    assert Observed(at=at.isoformat(), verdict="fresh").seen_at(at + HOUR).overdue == 0.0
    assert Pass(at.isoformat(), {"a": ""}).last_look("a") is None
    assert Watch(tick=at, success=at).failed is False


def test_a_pause_and_its_end_are_news(workshop: Workshop, towers: Callable[..., Tower]) -> None:
    workshop.write(3)
    tower = towers()
    pause(workshop.lake, "items", now() + HOUR, "the shop moves")
    assert "items is paused" in tower.tick().skip_message
    settle(workshop.folder / "landing")
    tower.tick()
    assert "waiting for its end: 1 window" in tower.tick().skip_message and tower.looked == []
    resume(workshop.lake, "items")
    assert tower.requests() == [day(3)]


def test_instants_that_matter_have_a_table_looked_at_though_nothing_is_new(
    workshop: Workshop, towers: Callable[..., Tower], monkeypatch: pytest.MonkeyPatch
) -> None:
    days = dg.DailyPartitionsDefinition("2026-01-01")
    workshop.asset = items_asset(partitions_def=days, absent="empty", freshness=Freshness(within=2 * HOUR))
    tower = towers()
    at = now().replace(hour=9, minute=0, second=0, microsecond=0)

    def until(at: Any) -> Any:
        monkeypatch.setattr(looks, "now", lambda: at)
        tower.watching.tables["items"].quiet = None
        pause(workshop.lake, "items", now() + 1000 * HOUR, "so that it is settled though windows wait")
        tower.tick()
        quiet = tower.watching.tables["items"].quiet
        assert quiet is not None
        return quiet.until

    midnight = at.replace(hour=0) + timedelta(days=1)
    assert until(at) == at + looks.WHOLLY
    assert until(midnight - timedelta(minutes=10)) == midnight
    assert until(midnight + timedelta(minutes=1)) == midnight + timedelta(minutes=61)
    assert until(midnight + timedelta(minutes=100)) == midnight + 2 * HOUR


def test_a_backlog_of_many_tables_is_requested_in_several_ticks_each_table_in_its_turn(
    workshop: Workshop, towers: Callable[..., Tower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "REQUESTS", 2)
    workshop.write(3)
    tower = towers(*(items_asset(name=f"more_{number}") for number in range(4)))
    served: list[str] = []
    for _ in range(3):
        for one in tower.watching:  # as if only those were due that had no turn
            one.due = 0.0 if one.table.name not in served else float("inf")
        with dg.build_sensor_context(
            instance=workshop.instance, repository_def=tower.repository, resources={"lake": workshop.lake}
        ) as context:
            result = tower.watching.tick(context)
        assert isinstance(result, dg.SensorResult), (served, result.skip_message)
        asked = [request.tags["incload/table"] for request in result.run_requests or []]
        assert not set(asked) & set(served)
        served += asked
    assert sorted(served) == ["items", "more_0", "more_1", "more_2", "more_3"]


def test_between_looks_at_everything_the_newest_partitions_are_looked_at_and_all_if_one_of_them_waits(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    workshop.write(2)
    workshop.write(12)
    workshop.load_all()
    tower = towers()
    [one] = tower.watching

    def tick() -> Any:
        """One before a look at everything is due."""
        one.due, one.news, one.quiet = 0.0, False, None
        one.pace.took(1000)
        return tower.paced()

    assert tower.tick().skip_message == "items: 2 of 14 windows loaded; 12 waiting for their source"
    workshop.write(2, "b")
    workshop.write(3)
    looked = "items: 2 of 14 windows loaded; only the newest 3 were checked; 12 waiting for their source"
    assert tick().skip_message == looked
    workshop.write(12, "b")
    assert partitions(tick().run_requests) == [day(12)]
    assert tower.requests() == [day(2), day(3), day(12)]
    workshop.write(13)
    assert partitions(tick().run_requests) == [day(2), day(3), day(12), day(13)], "one of the newest was never tried"


def test_light_checks_are_evaluated_with_looks_and_recorded_once_also_where_the_source_is_down(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    workshop.asset = items_asset(freshness=Freshness(within=HOUR))
    workshop.write(14)
    down = items_asset(name="down", source=SilentSource({}), freshness=Freshness(within=HOUR))
    tower = towers(down)

    def results() -> dict[str, list[tuple[bool, str]]]:
        """What was recorded of the freshness of each table."""
        storage, found = workshop.instance.event_log_storage, {}
        for table in tower.tables:
            records = storage.get_asset_check_execution_history(dg.AssetCheckKey(table.key, "freshness"), limit=9)
            told = [record.evaluation for record in records]
            found[table.name] = [(one.passed, one.description or "") for one in told if one is not None]
        return found

    for one in tower.watching:
        one.checked = float("-inf")
    tower.tick()
    [[(late, about)], [(silent, trouble)]] = results().values()
    assert (late, silent) == (False, False)
    assert "the source holds it, but no run has loaded it" in about
    assert "fix the source, which could not be checked" in trouble
    for _ in range(2):
        for one in tower.watching:
            one.checked = float("-inf")
        tower.tick()
    assert [len(told) for told in results().values()] == [1, 1]
    workshop.load_all()
    tower.tick()
    assert [len(told) for told in results().values()] == [1, 1], "they hold for a while"
    tower.watching.tables["items"].until = now()
    tower.tick()
    assert [told[0][0] for told in results().values()] == [True, False]


def test_a_window_whose_load_ends_during_a_look_is_not_requested_again(
    workshop: Workshop, towers: Callable[..., Tower], monkeypatch: pytest.MonkeyPatch
) -> None:
    tower = towers()
    workshop.write(1)
    requests, before = [dg.RunRequest(partition_key=day(1))], looks.source_state  # of a person

    def seen(*arguments: Any) -> Any:
        state = before(*arguments)
        while requests:  # the log was read before it, and Dagster is asked after it
            assert workshop.run(requests.pop()).success
        return state

    monkeypatch.setattr(looks, "source_state", seen)
    requested = tower.requests()
    while tower.watching.under_way:  # the look took longer than the tick
        requested += tower.requests()
    assert requested == []
    assert "1 of 14 windows loaded" in tower.tick().skip_message

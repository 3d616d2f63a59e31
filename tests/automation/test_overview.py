"""All tables as their sensor sees them."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
from deltalake import write_deltalake

from incload_assets.automation.overview import Sight, sight_of
from incload_assets.declaration.window import now
from incload_assets.progress.observed import RECENT, folder_of, keep_watched
from incload_assets.progress.status import table_status
from tests.automation.tower import SilentSource, Tower
from tests.support.load_history import keep_cursor
from tests.support.workshop import Workshop, items_asset

HERE = folder_of(Path.cwd())


def write_table(workshop: Workshop) -> Path:
    """The Delta log of a table with two rows, which are those of no load."""
    uri = workshop.lake.table_uri(workshop.table.key.path)
    write_deltalake(uri, pa.table({"id": ["1", "2"]}))
    return Path(uri, "_delta_log")


def kept(tower: Tower, location: str = "lake", *, running: bool = True) -> None:
    """Has Dagster keep the sensor's cursor, as its daemon does after a tick."""
    instance = tower.workshop.instance
    keep_watched(instance, location, tower.watching.tables, HERE)
    keep_cursor(instance, tower.cursor, now(), location, running=running)


def looked(tower: Tower) -> Sight:
    """The sight after a tick."""
    tower.tick()
    kept(tower)
    sight = sight_of(tower.workshop.instance, HERE, now())
    assert sight is not None
    return sight


def test_tables_are_seen_as_a_look_at_them_would_find_them(workshop: Workshop, towers: Callable[..., Tower]) -> None:
    tower = towers(items_asset(name="down", source=SilentSource({})))
    write_table(workshop)
    workshop.write(1)
    [request] = workshop.requests()
    assert workshop.run(request).success
    workshop.write(2)
    looked(tower)
    sight = looked(tower)
    assert sight.others == []
    down, items = sorted(sight.rows, key=lambda row: row.table)
    assert items == table_status(workshop.instance, workshop.table, workshop.lake, sight.at).overview
    assert (items.counts["loaded"], items.counts["missing"], items.rows) == (1, 1, 2)
    assert (down.counts, down.freshness) == ({}, None)
    assert down.unreadable.startswith("down: the shop's database does not answer")


def test_what_dagster_has_recorded_something_about_since_is_not_shown_as_it_was(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    tower = towers()
    write_table(workshop)
    workshop.write(1)
    looked(tower)
    assert looked(tower).others == []
    [request] = workshop.requests()
    assert workshop.run(request).success
    sight = sight_of(workshop.instance, HERE, now())
    assert sight is not None
    assert (sight.rows, sight.others) == ([], ["items"])
    looked(tower)
    [row] = looked(tower).rows
    assert row.counts["loaded"] == 1


def test_a_table_that_was_wiped_or_not_looked_at_for_a_while_is_not_shown_as_it_was(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    tower = towers(items_asset(name="rare", interval=timedelta(hours=1)))
    write_table(workshop)
    workshop.write(1)
    [request] = workshop.requests()
    assert workshop.run(request).success
    looked(tower)
    assert looked(tower).others == []
    rare = tower.watching.tables["rare"]
    rare.ended, rare.due = now() - RECENT - timedelta(seconds=1), time.monotonic() + 3600
    tower.paced()
    kept(tower)
    sight = sight_of(workshop.instance, HERE, now())
    assert sight is not None and sight.others == ["rare"]
    assert looked(tower).others == []
    workshop.instance.wipe_assets([workshop.table.key])
    sight = sight_of(workshop.instance, HERE, now())
    assert sight is not None and sight.others == ["items"]


def test_a_sensor_that_does_not_look_or_is_of_another_project_shows_nothing(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    tower, instance = towers(), workshop.instance
    looked(tower)
    looked(tower)
    assert sight_of(instance, HERE, now() + RECENT + timedelta(seconds=1)) is None
    assert sight_of(instance, "/elsewhere", now()) is None
    kept(tower, running=False)
    assert sight_of(instance, HERE, now()) is None
    kept(tower)
    assert sight_of(instance, HERE, now()) is not None
    kept(tower, "another")
    assert sight_of(instance, HERE, now()) is None, "which of two locations is meant is not known"


def test_a_table_that_cannot_be_read_is_named_and_its_news_are_requested(
    workshop: Workshop, towers: Callable[..., Tower]
) -> None:
    tower, log = towers(), write_table(workshop)
    workshop.write(1)
    [request] = workshop.requests()
    assert workshop.run(request).success
    looked(tower)
    commit = max(log.glob("*.json"))
    commit.write_bytes(commit.read_bytes()[:-30])
    workshop.write(2)
    result = tower.tick()
    assert isinstance(result, dg.SensorResult)
    kept(tower)
    tower.tick()
    kept(tower)
    sight = sight_of(workshop.instance, HERE, now())
    assert sight is not None
    [row] = sight.rows
    assert row.unreadable.startswith("items: ") and "is cut or damaged" in row.unreadable
    assert (row.counts["loaded"], row.rows) == (1, 2), "as it was seen last"
    assert row.last_materialized is not None

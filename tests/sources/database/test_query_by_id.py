"""Rows of a real PostgreSQL, and of a real MariaDB where the law is the same, by a number that only grows."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.platform.dialects.dialect import Server
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.sources.database import query_by_id
from incload_assets.sources.database import source as database_source
from incload_assets.sources.database.query_by_id import QueryById
from tests.support.databases import NEWEST, Shop, at, each_shop, mariadb_shop, put, shop, window
from tests.support.detection import detected
from tests.support.tables import day, make

__all__ = ["each_shop", "mariadb_shop", "shop"]
pytestmark = pytest.mark.integration

SOURCE = QueryById("shop", "items", id="no", lag=timedelta(0))


class Clock:
    """What the server's clock is taken for: windows end when the test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = at("2026-01-01 12:00")
        ask = database_source.server_of

        def server_of(*given: object) -> Server:
            server = ask(*given)  # type: ignore[arg-type]
            # when others began is hidden, as from an account without privileges
            return replace(
                server,
                now=self.now,
                transactions=dict.fromkeys(server.transactions),
                sessions=dict.fromkeys(server.sessions),
            )

        patch.setattr(database_source, "server_of", server_of)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Watch:
    """Looks at windows as loads would, remembering what was landed."""

    def __init__(self, folder: Path, source: QueryById = SOURCE) -> None:
        self.lake, self.source = Lake(str(folder)), source
        self.ingested: dict[str, Position] = {}

    def look(self, *numbers: int) -> dict[str, tuple[int, str]]:
        """Rows and state of each window."""
        windows: list[Window] = [window(number) for number in numbers]
        found = detected(self.source, "items", windows, self.ingested, first=window(1).start, lake=self.lake)
        self.ingested |= found
        return {key: (position.detail["rows"], position.detail["state"]) for key, position in found.items()}

    def ids(self, spark: SparkSession, *numbers: int) -> set[tuple[str, str]]:
        """The rows of windows as they were looked at last."""
        positions = {day(number): self.ingested[day(number)] for number in numbers}
        rows = self.source.extract_windows(spark, "items", positions, ["id"]).select("_window", "_raw.id").head(1000)
        assert len(rows) == len(set(rows))
        return {(row["_window"], row.id) for row in rows}


def add(*ids: str) -> list[str]:
    return [put(id, "v", 1, None) for id in ids]


def test_windows_tile_by_what_was_visible_at_their_end(
    spark: SparkSession, each_shop: Shop, clock: Clock, tmp_path: Path
) -> None:
    watch = Watch(tmp_path)
    each_shop.run(*add("a", "b"))
    assert watch.look(1) == {day(1): (2, "open")}
    clock.now = at("2026-01-02 00:00")
    assert watch.look(1, 2) == {day(1): (2, "closed")}  # the second has begun, and has nothing
    each_shop.run(*add("c"))
    clock.now = at("2026-01-03 00:00")
    each_shop.run(*add("d"))
    assert watch.look(1, 2, 3) == {day(1): (2, "closed"), day(2): (2, "closed")}
    each_shop.run(*add("e"))
    clock.now = at("2026-01-03 12:00")
    assert watch.look(3, 4) == {day(3): (1, "open")}
    assert watch.ids(spark, 1, 2, 3) == {(day(1), "a"), (day(1), "b"), (day(2), "c"), (day(2), "d"), (day(3), "e")}


def test_windows_that_were_over_before_anybody_looked_are_one_range_of_the_first(
    spark: SparkSession, shop: Shop, clock: Clock, tmp_path: Path
) -> None:
    watch = Watch(tmp_path)
    shop.run(*add("a", "b"))
    clock.now = at("2026-01-04 12:00")
    assert watch.look(3) == {day(3): (0, "closed")}  # whatever is asked first
    shop.run(*add("c"))
    assert watch.look(1, 2, 3, 4) == {
        day(1): (2, "closed"), day(2): (0, "closed"), day(3): (0, "closed"), day(4): (1, "open")
    }  # fmt: skip
    clock.now = at("2026-01-09 00:00")
    assert watch.look(4, 5, 6, 7, 8)[day(4)] == (1, "closed")
    assert watch.ids(spark, 1, 2, 3, 4) == {(day(1), "a"), (day(1), "b"), (day(4), "c")}


def test_a_table_without_rows_has_empty_windows_and_what_comes_belongs_to_the_next(
    each_shop: Shop, clock: Clock, tmp_path: Path
) -> None:
    watch = Watch(tmp_path)
    clock.now = at("2026-01-02 12:00")
    assert watch.look(1, 2) == {day(1): (0, "closed")}
    each_shop.run(*add("a"), "ROLLBACK")
    assert watch.look(1, 2) == {day(1): (0, "closed"), day(2): (1, "open")}
    clock.now = at("2026-01-03 00:00")
    assert watch.look(1, 2) == {day(1): (0, "closed"), day(2): (1, "closed")}


def test_a_number_that_a_long_transaction_commits_late_is_found_in_its_window(
    spark: SparkSession, each_shop: Shop, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now = at("2026-01-02 00:00")
    items = make(spark, tmp_path, source=SOURCE, changes=NEWEST)
    with each_shop.connect() as writer:
        writer.execute(put("late", "a", 1, None))
        each_shop.run(*add("early"))
        states = [items.load(1).record.as_position()]
        each_shop.run(*add("next day"))
        clock.now = at("2026-01-03 00:00")
        assert items.rows("id") == {("early",)}
    states.append(items.load(1).record.as_position())
    items.load(2)
    assert items.rows("id") == {("early",), ("late",), ("next day",)}
    assert [(p.detail["state"], p.detail["rows"]) for p in states] == [("waiting", 1), ("closed", 2)]
    assert [SOURCE.settled(p) for p in states] == [False, True]


def test_with_a_cache_in_the_sequence_sessions_are_waited_for(shop: Shop, clock: Clock, tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    shop.run("ALTER TABLE items ALTER no SET CACHE 10")
    clock.now = at("2026-01-02 00:00")
    with shop.connect(autocommit=True) as one:
        one.execute(put("1", "", 1, None))
        shop.run(*add("11"))
        assert watch.look(1) == {day(1): (2, "waiting")}
        one.execute(put("2", "", 1, None))
        assert watch.look(1) == {day(1): (3, "waiting")}
    assert watch.look(1) == {day(1): (3, "closed")}
    assert shop.rows("SELECT no, id FROM items") == {(1, "1"), (2, "2"), (11, "11")}


def test_gaps_and_numbers_of_rolled_back_transactions_are_no_rows(
    spark: SparkSession, shop: Shop, clock: Clock, tmp_path: Path
) -> None:
    watch = Watch(tmp_path)
    with shop.connect() as writer:
        writer.execute(put("never", "", 1, None))
        writer.rollback()
    shop.run(*add("a"), "ALTER TABLE items ALTER no RESTART WITH 1000", *add("b"))
    clock.now = at("2026-01-02 00:00")
    assert watch.look(1) == {day(1): (2, "closed")}
    assert watch.ids(spark, 1) == {(day(1), "a"), (day(1), "b")}


def test_of_two_who_look_at_once_the_one_who_saw_less_moves_no_window_back(
    shop: Shop, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, other = Watch(tmp_path), Watch(tmp_path)
    shop.run(*add("a"))
    clock.now = at("2026-01-03 00:00")
    ask = query_by_id._highest

    def overtaken(*args: object) -> int | None:
        seen = ask(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(query_by_id, "_highest", ask)
        shop.run(*add("b"))
        assert other.look(1) == {day(1): (2, "closed")}
        return seen

    monkeypatch.setattr(query_by_id, "_highest", overtaken)
    assert watch.look(1, 2) == {day(1): (2, "closed"), day(2): (0, "closed")}
    shop.run(*add("c"))
    clock.now = at("2026-01-03 12:00")
    assert watch.look(1, 2, 3) == {day(1): (2, "closed"), day(2): (0, "closed"), day(3): (1, "open")}


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (
            "TRUNCATE items RESTART IDENTITY",
            "items: shop.public.items: the sequence of 'no' is at 0, and was at 3",
        ),
        (
            "TRUNCATE items RESTART IDENTITY; INSERT INTO items (id) VALUES ('x')",
            "items: shop.public.items: the highest 'no' is 1, and was 3",
        ),
        (
            "SELECT setval('items_no_seq', 1)",
            "items: shop.public.items: the sequence of 'no' is at 1, and was at 3",
        ),
        (
            "CREATE TABLE other AS TABLE items; DROP TABLE items; ALTER TABLE other RENAME TO items",
            "items: shop.public.items: the table was recreated since the last load",
        ),
    ],
)
def test_numbers_that_begin_again_stop_the_load(shop: Shop, clock: Clock, tmp_path: Path, what: str, told: str) -> None:
    watch = Watch(tmp_path)
    shop.run(*add("a", "b", "c"))
    clock.now = at("2026-01-02 00:00")
    watch.look(1)
    shop.run(*what.split("; "))
    with pytest.raises(SourceUnreadable) as caught:
        watch.look(1, 2)
    assert caught.value.problem == told


def test_random_inserts_by_parallel_transactions_are_all_loaded(
    spark: SparkSession, each_shop: Shop, clock: Clock, tmp_path: Path
) -> None:
    chance, items = random.Random(3), make(spark, tmp_path, source=SOURCE, changes=NEWEST)
    writers = [each_shop.connect() for _ in range(4)]
    for number in (1, 2):
        for n in range(200):
            writer = chance.choice(writers)
            writer.execute(put(f"{number}-{n}", "v", n, None))
            if chance.random() < 0.1:
                (writer.commit if chance.random() < 0.7 else writer.rollback)()
        clock.now = window(number).end
        items.load(number)
    for writer in writers:
        writer.commit()
        writer.close()
    for number in (1, 2):
        if not SOURCE.settled(items.load(number).record.as_position()):
            raise AssertionError(f"window {number} is not complete although no transaction is left")
    clock.now = window(3).end
    items.load(3)
    assert items.rows() == each_shop.rows("SELECT id, value, seq FROM items")

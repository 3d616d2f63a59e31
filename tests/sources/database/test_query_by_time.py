"""Rows of a real PostgreSQL, and of a real MariaDB where the law is the same, by the time of their last change."""

import json
import random
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from pyspark.sql import Row, SparkSession

from incload_assets.assets import Quarantine
from incload_assets.declaration.source import EXTRACTED_COLUMNS, WHOLE, Position
from incload_assets.declaration.window import Window
from incload_assets.platform.databases import Database
from incload_assets.platform.errors import DeclarationError, SourceUnreadable
from incload_assets.sources.database import closing as database_closing
from incload_assets.sources.database import reading as database_reading
from incload_assets.sources.database.query_by_time import QueryByTime
from tests.servers.postgres import running_postgres
from tests.support.databases import (
    NAME,
    NEWEST,
    Shop,
    each_shop,
    lag_until,
    mariadb_shop,
    put,
    shop,
    survives_a_kill_amid_a_read,
    window,
)
from tests.support.detection import detected
from tests.support.tables import GoodItem, day, make

__all__ = ["each_shop", "mariadb_shop", "shop"]
pytestmark = pytest.mark.integration

SOURCE = QueryByTime("shop", "items", modified="changed")
FIRST = window(1).start


def look(source: QueryByTime, *windows: Window, ingested: dict[str, Position] | None = None) -> dict[str, Position]:
    return detected(source, "items", windows, ingested or {}, first=FIRST)


def ids(spark: SparkSession, source: QueryByTime, positions: dict[str, Position]) -> set[tuple[str, str]]:
    frame = source.extract_windows(spark, "items", positions, ["id"])
    rows = frame.select("_window", "_raw.id").head(1000)
    assert len(rows) == len(set(rows))
    return {(row["_window"], row.id) for row in rows}


def test_a_rejected_row_keeps_its_whole_record(spark: SparkSession, tmp_path: Path, each_shop: Shop) -> None:
    each_shop.put("good", "fine", 1, "2026-01-01 10:00")
    each_shop.put("broken", "bad", 2, "2026-01-01 10:00:00.000001")
    source = QueryByTime("shop", "items", modified="changed")
    table = make(spark, tmp_path, source=source, contract=GoodItem, changes=NEWEST, quarantine=Quarantine(max_share=1))
    table.load(1)
    [(kind, payload)] = table.log("rejected", "_kind", "_payload")
    kept = json.loads(payload)
    assert "10:00:00.000001" in kept.pop("changed")  # a time of PostgreSQL, a text of MariaDB
    assert (kind, kept) == ("rejected", {"no": 2, "id": "broken", "value": "bad", "seq": 2})
    assert table.log("upsert", "id", "_payload") == [("good", None)]


def test_a_window_is_half_open_to_the_microsecond_in_utc(spark: SparkSession, shop: Shop) -> None:
    shop.run(
        put("last of 1", "", 1, "2026-01-01 23:59:59.999999+00"),
        put("first of 2", "", 1, "2026-01-02 02:00:00+02"),
        put("last of 2", "", 1, "2026-01-02 18:59:59.999999-05"),
        put("first of 3", "", 1, "2026-01-03 00:00:00Z"),
    )
    positions = look(SOURCE, window(1), window(2), window(3))
    wanted = {(day(1), "last of 1"), (day(2), "first of 2"), (day(2), "last of 2"), (day(3), "first of 3")}
    assert ids(spark, SOURCE, positions) == wanted
    assert ids(spark, SOURCE, {day(2): positions[day(2)]}) == {w for w in wanted if w[0] == day(2)}


def test_times_without_a_zone_are_utc_whatever_the_server_takes_them_for(spark: SparkSession, shop: Shop) -> None:
    shop.run(
        f"ALTER DATABASE {NAME} SET timezone TO 'America/New_York'",
        "ALTER TABLE items ALTER changed TYPE timestamp",
        put("a", "", 1, "2026-01-02 00:00:00.000000"),
        put("b", "", 1, "2026-01-02 23:59:59.999999"),
    )
    positions = look(SOURCE, window(1), window(2), window(3))
    assert {key: position.detail["rows"] for key, position in positions.items()} == {day(1): 0, day(2): 2, day(3): 0}
    rows = SOURCE.extract(spark, "items", positions[day(2)], ["id", "changed"]).select("_raw.*").head(3)
    assert {(row.id, row.changed) for row in rows} == {
        ("a", datetime(2026, 1, 2)),
        ("b", datetime(2026, 1, 2, 23, 59, 59, 999999)),
    }


def test_what_is_older_or_undated_is_of_the_first_window_and_no_row_is_outside(spark: SparkSession, shop: Shop) -> None:
    shop.run(
        put("old", "", 1, "1999-12-31"),
        put("undated", "", 1, None),
        put("before all time", "", 1, "-infinity"),
        put("now", "", 1, "2026-01-02 12:00"),
        put("future", "", 1, "2999-01-01"),
    )
    positions = look(SOURCE, window(1), window(2))
    wanted = {(day(1), "old"), (day(1), "undated"), (day(1), "before all time"), (day(2), "now")}
    assert ids(spark, SOURCE, positions) == wanted
    assert positions[day(1)].summary == "3 rows of shop.public.items, 1 of them with NULL in the window column, closed"
    assert positions[day(2)].summary == (
        "1 row of shop.public.items, closed; "
        "dated in the future, from 2999-01-01 00:00:00+00 on, and left to later windows: 1 row"
    )


def test_the_clock_tells_what_is_dated_later_than_the_servers_own_time_and_lag(shop: Shop) -> None:
    shop.run(put("infinity", "", 1, "infinity"))
    [only] = SOURCE.clocks("items")
    assert (only.ahead, only.first, only.allowed) == (1, "infinity", timedelta(minutes=5))
    assert abs(only.skew) < timedelta(seconds=5)
    shop.run(put("future", "", 1, "2999-01-01"), put("soon", "", 1, None))
    shop.run("UPDATE items SET changed = now() + interval '4 minutes' WHERE id = 'soon'")
    [both] = SOURCE.clocks("items")
    assert (both.ahead, both.first) == (2, "2999-01-01 00:00:00+00")


def test_a_position_changes_with_the_rows_and_with_nothing_else(shop: Shop) -> None:
    shop.run(put("a", "1", 1, "2026-01-01 10:00"), put("b", "1", 1, "2026-01-02 10:00"))
    first = look(SOURCE, window(1), window(2))
    assert look(SOURCE, window(1))[day(1)].fingerprint == first[day(1)].fingerprint
    shop.run("VACUUM FULL items", "ANALYZE items")
    assert look(SOURCE, window(1))[day(1)].fingerprint == first[day(1)].fingerprint
    shop.run("UPDATE items SET value = '2' WHERE id = 'a'")
    second = look(SOURCE, window(1), window(2))
    assert second[day(1)].fingerprint != first[day(1)].fingerprint
    assert second[day(2)].fingerprint == first[day(2)].fingerprint
    assert [key for key, p in first.items() if SOURCE.settled(p)] == [day(1), day(2)]


def test_a_server_whose_clock_differs_is_told_of_and_its_clock_counts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = SimpleNamespace(now=lambda: datetime.now(UTC) - timedelta(seconds=42))
    monkeypatch.setattr(database_closing, "windows", behind)
    shop.put("a", "", 1, "2026-01-01 10:00")
    source = replace(SOURCE, lag=lag_until(1, after=-20))
    assert look(source, window(1))[day(1)].summary == (
        "1 row of shop.public.items, closed; the server's clock is 42 s ahead of ours"
    )


def test_each_type_comes_as_it_is_or_as_text_that_says_all_of_it(spark: SparkSession, shop: Shop) -> None:
    shop.run(
        """CREATE DOMAIN price AS numeric CHECK (value > -1)""",
        """CREATE TYPE mood AS ENUM ('good', 'bad')""",
        """CREATE TABLE "Odd ""ones"" too" ("A" int, a numeric, p price, f float8, t timestamptz, d date, j jsonb,
          u uuid, l int[], b bytea, i interval, m mood, "sélect" text, changed timestamptz DEFAULT '2026-01-01')""",
        """INSERT INTO "Odd ""ones"" too" VALUES (1, 12345678901234567890.123456789012345678901, 'NaN', 'NaN',
          'infinity', '-infinity', '{"x": 1}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{1,null}', '\\xdead',
          '1 day 2 hours', 'bad', '😀')""",
    )
    source = replace(SOURCE, table='public.Odd "ones" too')
    position = look(source, window(1))[day(1)]
    names = ["A", "a", "p", "f", "t", "d", "j", "u", "l", "b", "i", "m", "nowhere"]
    frame = source.extract(spark, "odd", position, names)
    assert set(frame.columns) == {*EXTRACTED_COLUMNS, WHOLE}
    (row,) = frame.head(2)
    assert str(row["_raw"]) == str(
        Row(
            A=1,
            a="12345678901234567890.123456789012345678901",
            p="NaN",
            f=float("nan"),
            t=datetime(9999, 12, 31, 23, 59, 59, 999999),
            d=date(1, 1, 1),
            j='{"x": 1}',
            u="a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            l="[1,null]",
            b=b"\xde\xad",
            i="P1DT2H",
            m="bad",
            nowhere=None,
        )
    )
    assert json.loads(row["_rescued"]) == {"sélect": "😀", "changed": "2026-01-01T00:00:00.000000Z"}
    assert [*row[WHOLE].asDict()] == [*names[:-1], "sélect", "changed"]
    assert row["_source"].asDict() == {"file": 'shop.public.Odd "ones" too', "block": 0, "row": 1767225600000000}


def test_a_big_window_is_read_in_pieces_each_row_once(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_reading, "ROWS_PER_READ", 10)
    shop.run(
        "INSERT INTO items (id, changed) "
        "SELECT n, timestamptz '2026-01-01' + n * interval '1 hour' FROM generate_series(0, 95) n",
        "INSERT INTO items (id) VALUES ('undated')",
    )
    positions = look(SOURCE, *map(window, range(1, 5)))
    frame = SOURCE.extract_windows(spark, "items", positions, ["id"])
    assert len(ids(spark, SOURCE, positions)) == 97
    assert "numPartitions=12" in frame._explain_string()  # three for each day


def quiet_count_of_rows_by_index(shop: Shop) -> int:
    """How many rows the index gave, once the server's sessions have told all they did."""
    asked = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'items_changed_idx'"
    counts = [-1, int(shop.server.rows(NAME, asked)[0][0])]
    while counts[-1] != counts[-2]:
        time.sleep(3)  # a session tells at its end, or a second after it went idle
        counts.append(int(shop.server.rows(NAME, asked)[0][0]))
    return counts[-1]


def test_the_condition_reaches_the_index(spark: SparkSession, shop: Shop) -> None:
    shop.run(
        "INSERT INTO items (id, changed) SELECT n, timestamptz '2026-01-01' + n * interval '1 s' "
        "FROM generate_series(1, 200000) n",
        "CREATE INDEX ON items (changed)",
        "ANALYZE items",
    )
    position = look(SOURCE, window(2))[day(2)]
    before = quiet_count_of_rows_by_index(shop)
    assert SOURCE.extract(spark, "items", position, ["id"]).count() == 86400
    assert quiet_count_of_rows_by_index(shop) - before == 86400
    assert shop.server.rows(NAME, "SELECT seq_scan > 5 FROM pg_stat_user_tables WHERE relname = 'items'") == [(False,)]


def test_a_condition_on_a_column_that_the_table_lacks_fails_by_its_name(
    spark: SparkSession, each_shop: Shop, tmp_path: Path
) -> None:
    each_shop.put("a", "v", 1, "2026-01-01 10:00")
    items = make(spark, tmp_path, source=SOURCE)
    with pytest.raises(SourceUnreadable, match=r"names 'op', which shop\.\w+\.items does not have\. Rule: .*seq"):
        items.load(1)


def test_a_row_that_a_long_transaction_commits_late_is_found(
    spark: SparkSession, each_shop: Shop, tmp_path: Path
) -> None:
    items = make(spark, tmp_path, source=replace(SOURCE, lag=lag_until(1, after=3600)), changes=NEWEST)
    each_shop.put("early", "a", 1, "2026-01-01 10:00")
    with each_shop.connect() as writer:
        writer.execute("SELECT count(*) FROM items")  # nothing written yet
        positions = [items.load(1).record.as_position()]
        source = replace(SOURCE, lag=lag_until(1, after=0))
        items = replace(items, table=replace(items.table, source=source))  # time went by
        positions.append(items.load(1).record.as_position())
        writer.execute(put("late", "b", 1, "2026-01-01 11:00"))
        positions.append(items.load(1).record.as_position())
        assert items.rows() == {("early", "a", 1)}
    asked = look(source, window(1), ingested={day(1): positions[-1]})[day(1)]
    assert asked.fingerprint != positions[-1].fingerprint  # a sensor asks for one more load
    positions.append(items.load(1).record.as_position())
    assert items.rows() == {("early", "a", 1), ("late", "b", 1)}
    assert [p.detail["state"] for p in positions] == ["open", "waiting", "waiting", "closed"]
    assert [source.settled(p) for p in positions] == [False, False, False, True]


def test_an_account_that_cannot_see_when_others_began_waits_for_them_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run(
        "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'its own'", "GRANT SELECT ON items TO reader"
    )
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", "reader")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", "its own")
    with shop.connect() as other:
        other.execute("SELECT 1")
        waiting = look(SOURCE, window(1))
        assert waiting[day(1)].summary == "0 rows of shop.public.items, waiting for 1 transactions"
    with shop.connect() as another:
        another.execute("SELECT 1")
        closed = look(SOURCE, window(1), ingested=waiting)
        assert (SOURCE.settled(waiting[day(1)]), SOURCE.settled(closed[day(1)])) == (False, True)


def test_a_prepared_transaction_is_waited_for(shop: Shop) -> None:
    with shop.connect(autocommit=True) as writer:
        writer.execute("BEGIN")
        writer.execute(put("a", "", 1, "2026-01-01 10:00"))
        writer.execute("PREPARE TRANSACTION 'two phases'")
        waiting = look(SOURCE, window(1))[day(1)]
        writer.execute("COMMIT PREPARED 'two phases'")
    closed = look(SOURCE, window(1), ingested={day(1): waiting})[day(1)]
    assert [(p.detail["state"], p.detail["rows"]) for p in (waiting, closed)] == [("waiting", 0), ("closed", 1)]


def test_the_table_ends_as_the_database_after_random_changes_loaded_day_by_day(
    spark: SparkSession, each_shop: Shop, tmp_path: Path
) -> None:
    chance = random.Random(7)
    items = make(spark, tmp_path, source=SOURCE, changes=NEWEST)
    ids: set[str] = set()
    for number in range(1, 4):
        changes = []
        for seq in range(300):
            id, value = f"i{chance.randrange(100 * number)}", chance.choice(["a", "b", "it''s"])
            at = f"2026-01-{number:02d} {chance.randrange(24):02d}:{chance.randrange(60):02d}:00.{seq:06d}"
            update = f"UPDATE items SET value = '{value}', seq = {number}{seq:03d}, changed = '{at}' WHERE id = '{id}'"
            changes.append(update if id in ids else put(id, value, number * 1000 + seq, at))
            ids.add(id)
        each_shop.run(*changes)
        items.load(number)
    items.load(2)  # many of its rows have left it since
    assert items.rows() == each_shop.rows("SELECT id, value, seq FROM items")


def test_a_server_killed_amid_a_read_is_a_transient_error_and_nothing_is_half_applied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_postgres() as server:
        shop = Shop(server, monkeypatch)
        shop.run(
            "INSERT INTO items (id, value, seq, changed) "
            "SELECT n, 'v', 1, timestamptz '2026-01-01' + n * interval '1 s' FROM generate_series(1, 1000) n",
            # slow where Spark reads, so that there is a middle
            """CREATE VIEW slowly AS SELECT id, value, changed,
              seq + CASE WHEN current_query() LIKE '%AS _rows%' THEN length(pg_sleep(0.004)::text) ELSE 0 END AS seq
              FROM items""",
        )
        items = make(spark, tmp_path, source=replace(SOURCE, table="slowly"), changes=NEWEST)
        reading = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%AS _rows%' AND pid <> pg_backend_pid()"
        survives_a_kill_amid_a_read(items, server, reading)


def test_connections_can_only_read(shop: Shop) -> None:
    with (
        Database.named("shop").connect() as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute("DELETE FROM items")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (replace(SOURCE, modified=""), "items: source: column is ''"),
        (replace(SOURCE, table="a.b.c"), "items: source: table is 'a.b.c'"),
        (replace(SOURCE, lag=timedelta(seconds=-1)), "items: source: lag is -1 day, 23:59:59"),
    ],
)
def test_a_wrong_declaration_is_refused(source: QueryByTime, told: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        source.validate("items")
    assert caught.value.problem == told

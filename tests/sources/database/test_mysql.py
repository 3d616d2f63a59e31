"""What a real MariaDB has for itself: types, transactions, numbers, zones, names, privileges, and how it fails."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pymysql
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.declaration.source import Position, Source
from incload_assets.declaration.table import Quarantine
from incload_assets.platform.databases import MYSQL, Database
from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.local_servers.files import free_port
from incload_assets.sources.database import reading as database_reading
from incload_assets.sources.database.errors import looking, meaning_of
from incload_assets.sources.database.query_by_id import QueryById
from incload_assets.sources.database.query_by_time import QueryByTime
from tests.servers.mariadb import MariadbServer, running_mariadb
from tests.support.certificates import Authority
from tests.support.databases import (
    NAME,
    NEWEST,
    MariadbShop,
    lag_until,
    mariadb_shop,
    put,
    survives_a_kill_amid_a_read,
    window,
)
from tests.support.detection import detected
from tests.support.documents import documented_block, statements
from tests.support.tables import Item, day, make

__all__ = ["mariadb_shop"]
pytestmark = pytest.mark.integration

BY_TIME = QueryByTime("shop", "items", modified="changed")
BY_ID = QueryById("shop", "items", id="no", lag=timedelta(0))
FIRST = window(1).start
READER = "weak"
NEEDED = statements(documented_block("sql", "GRANT PROCESS"))


def look(source: Source, *numbers: int, lake: str = "/nowhere", **ingested: Position) -> dict[str, Position]:
    """The positions of days."""
    windows = [window(number) for number in numbers]
    return detected(source, "items", windows, ingested, first=FIRST, lake=Lake(lake))


def failed_look(source: Source) -> IncrementalLoadError:
    begun = time.monotonic()
    with pytest.raises(IncrementalLoadError) as caught:
        look(source, 1)
    assert time.monotonic() - begun < 20
    assert "not-to-be-shown" not in str(caught.value)
    return caught.value


def values(spark: SparkSession, source: QueryByTime, position: Position, *names: str) -> dict[str, Any]:
    """The only row of a window."""
    (row,) = source.extract(spark, "items", position, list(names)).head(2)
    return row["_raw"].asDict() | {"payload": json.loads(row["_payload"]), "at": row["_source"].row}


@pytest.fixture
def shop(mariadb_shop: MariadbShop) -> MariadbShop:
    return mariadb_shop


@pytest.fixture
def reader(shop: MariadbShop, monkeypatch: pytest.MonkeyPatch) -> Iterator[MariadbShop]:
    """The source's account has no rights yet."""
    shop.run(f"DROP USER IF EXISTS {READER}", f"CREATE USER {READER} IDENTIFIED BY 'not-to-be-shown'")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", READER)
    yield shop
    shop.run(f"DROP USER {READER}")


TYPES = {
    "t1": ("tinyint(1)", "5", 5), "t": ("tinyint", "-128", -128), "iu": ("int unsigned", "4294967295", 2**32 - 1),
    "b": ("bigint", "-9223372036854775808", -(2**63)), "bu": ("bigint unsigned", "18446744073709551615", "2**64 - 1"),
    "zf": ("int(5) zerofill", "42", 42), "f": ("float", "0.1", 0.10000000149011612),
    "d": ("double", "1.1e300", 1.1e300), "n": ("decimal(65,30)", f"{'12' * 17}.1", f"{'12' * 17}.1{'0' * 29}"),
    "bit1": ("bit(1)", "1", "1"), "bits": ("bit(64)", "b'1" + "0" * 63 + "'", "9223372036854775808"),
    "dt": ("datetime(6)", "'2026-03-29 02:30:00.123456'", "2026-03-29 02:30:00.123456"),
    "zero": ("datetime", "'0000-00-00'", "0000-00-00 00:00:00"), "day": ("date", "'2026-02-31'", "2026-02-31"),
    "ts": ("timestamp(3) NULL", "'2026-03-29 01:30:00.5'", "2026-03-29 01:30:00.500"),
    "ti": ("time(6)", "'-838:59:59.5'", "-838:59:59.500000"), "y": ("year", "2155", 2155),
    "j": ("json", """'{"a": [1, "😀"]}'""", '{"a": [1, "😀"]}'), "e": ("enum('a', 'b''c')", "'b''c'", "b'c"),
    "s": ("set('x', 'y')", "'y,x'", "x,y"), "bin": ("binary(4)", "x'6162'", b"ab\0\0"),
    "vb": ("varbinary(9)", "x'ff00'", b"\xff\0"), "bl": ("longblob", "x'dead'", b"\xde\xad"),
    "c": ("char(5)", "'a '", "a"), "l1": ("varchar(9) CHARACTER SET latin1", "'é'", "é"),
    "tx": ("longtext", r"'😀\\''\n'", "😀\\'\n"), "u": ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "g": ("point", "point(1, 2.5)", "POINT(1 2.5)"), 
    "nothing": ("int", "NULL", None),
}  # fmt: skip


def test_each_type_comes_as_it_is_or_as_text_that_says_all_of_it(spark: SparkSession, shop: MariadbShop) -> None:
    columns = ", ".join(f"{name} {type}" for name, (type, _, _) in TYPES.items())
    shop.run(f"CREATE TABLE every ({columns}, changed timestamp NULL)")
    with shop.connect() as one:
        one.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        one.execute(f"INSERT INTO every VALUES ({', '.join(sql for _, sql, _ in TYPES.values())}, '2026-01-01 10:00')")
    source = replace(BY_TIME, table="every")
    position = look(source, 1)[day(1)]
    row = values(spark, source, position, *TYPES)
    wanted = {name: value for name, (_, _, value) in TYPES.items()}
    wanted["bu"], wanted["bits"], wanted["bit1"] = 2**64 - 1, 2**63, 1
    assert {name: row[name] for name in TYPES} == wanted
    assert row["at"] == 1767261600000000
    for name, (kind, *_) in TYPES.items():
        if name in ("nothing", "bit1"):
            continue
        shop.run(f"UPDATE every SET {name} = NULL")
        changed = look(source, 1)[day(1)]
        assert changed.fingerprint != position.fingerprint, kind
        position = changed


def test_a_date_that_is_none_goes_to_quarantine_and_not_to_null(
    spark: SparkSession, shop: MariadbShop, tmp_path: Path
) -> None:
    class Dated(Item):
        at: T.TimestampType = pa.Field(nullable=True)
        flag: T.BooleanType = pa.Field(nullable=True)

    shop.run("ALTER TABLE items ADD at datetime NULL, ADD flag tinyint(1)")
    with shop.connect() as one:
        one.execute("SET sql_mode = ''")
        for id, at, flag in (("zero", "'0000-00-00'", 1), ("good", "'2026-01-01 09:30:00'", 0), ("none", "NULL", 5)):
            one.execute(
                "INSERT INTO items (id, value, seq, changed, at, flag) "
                f"VALUES ('{id}', 'v', 1, '2026-01-01 10:00', {at}, {flag})"
            )
    items = make(spark, tmp_path, source=BY_TIME, changes=NEWEST, contract=Dated, quarantine=Quarantine(max_share=1))
    assert items.load(1).record.rejected == 2
    assert items.rows("id", "at", "flag") == {("good", datetime(2026, 1, 1, 9, 30, tzinfo=UTC), False)}


def test_times_are_utc_whatever_the_server_takes_them_for_and_windows_half_open(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    with running_mariadb("default_time_zone = '+05:30'") as server:
        shop = MariadbShop(server, monkeypatch)
        server.run(None, "SET GLOBAL time_zone = '+05:30'")
        shop.run(
            "ALTER TABLE items ADD written datetime(6)",
            *(
                f"INSERT INTO items (id, changed, written) VALUES ('{id}', '{local}', '{utc}')"
                for id, local, utc in (
                    ("last of 1", "2026-01-02 05:29:59.999999", "2026-01-01 23:59:59.999999"),
                    ("first of 2", "2026-01-02 05:30:00", "2026-01-02"),
                    ("first of 3", "2026-01-03 05:30:00", "2026-01-03"),
                )
            ),
        )
        for by in ("changed", "written"):
            source = replace(BY_TIME, modified=by)
            positions = look(source, 1, 2)
            frame = source.extract_windows(spark, "items", positions, ["id", by]).select("_window", "_raw.*")
            assert {tuple(row) for row in frame.head(9)} == {
                (day(1), "last of 1", "2026-01-01 23:59:59.999999"),
                (day(2), "first of 2", "2026-01-02 00:00:00.000000"),
            }
        with shop.connect() as writer, Database.named("shop").connect() as connection:
            writer.execute("SELECT count(*) FROM items")
            state = MYSQL.server(connection)
            [begin] = state.transactions.values()
        # InnoDB tells the time of New York
        assert begin is not None and timedelta(0) <= state.now - begin < timedelta(seconds=30)
        assert abs(state.now - datetime.now(UTC)) < timedelta(seconds=30)


def test_a_list_of_transactions_that_the_server_has_kept_is_not_believed(shop: MariadbShop) -> None:
    with shop.connect() as monitor, shop.connect() as writer:
        for _ in range(3):
            monitor.execute("SELECT count(*) FROM information_schema.innodb_trx")  # is kept for a tenth of a second
            writer.execute("SELECT count(*) FROM items")
            assert look(replace(BY_TIME, lag=lag_until(1, after=0)), 1)[day(1)].detail["state"] == "waiting"
            writer.rollback()
            monitor.rollback()


def test_a_prepared_transaction_is_waited_for_even_if_its_session_has_ended(shop: MariadbShop) -> None:
    source = replace(BY_TIME, lag=lag_until(1, after=0))
    writer = shop.connect()
    writer.execute("XA START 'two phases'")
    writer.execute(put("a", "", 1, "2026-01-01 10:00"))
    writer.execute("XA END 'two phases'")
    begun = look(source, 1)[day(1)]
    writer.execute("XA PREPARE 'two phases'")
    writer.close()
    while shop.rows(f"SELECT id FROM information_schema.processlist WHERE id = {writer.connection.thread_id()}"):
        time.sleep(0.05)
    prepared = look(source, 1, **{day(1): begun})[day(1)]
    shop.run("XA COMMIT 'two phases'")
    closed = look(source, 1, **{day(1): prepared})[day(1)]
    found = [(position.detail["state"], position.detail["rows"]) for position in (begun, prepared, closed)]
    assert found == [("waiting", 0), ("waiting", 0), ("closed", 1)]


def test_a_statement_that_waits_for_a_lock_and_has_begun_no_transaction_is_waited_for(shop: MariadbShop) -> None:
    shop.run("ALTER TABLE items ALTER changed SET DEFAULT (current_timestamp(6) - INTERVAL 5 SECOND)")
    with shop.connect(autocommit=True) as owner:
        owner.execute("FLUSH TABLES items WITH READ LOCK")
        waiter = threading.Thread(target=shop.run, args=["INSERT INTO items (id) VALUES ('late')"])
        waiter.start()
        while not shop.rows("SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT INTO items%'"):
            time.sleep(0.05)
        source = replace(BY_TIME, lag=lag_until(1, after=0))
        waiting = look(source, 1)[day(1)]
        owner.execute("UNLOCK TABLES")
        waiter.join()
    closed = look(source, 1, **{day(1): waiting})[day(1)]
    assert [p.detail["state"] for p in (waiting, closed)] == ["waiting", "closed"]


def test_a_server_that_is_read_only_as_replicas_are_completes_no_window(shop: MariadbShop) -> None:
    shop.run("SET GLOBAL read_only = 1")
    try:
        found = look(BY_TIME, 1)[day(1)]
    finally:
        shop.run("SET GLOBAL read_only = 0")
    assert found.summary == (
        "0 rows of shop.shop.items, open; no window becomes complete: "
        "a replica does not know the transactions of its primary server"
    )
    assert BY_TIME.settled(look(BY_TIME, 1)[day(1)])


def test_a_replica_completes_no_window_even_if_it_can_be_written(
    mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_mariadb("server_id = 2") as replica:
        MariadbShop(replica, monkeypatch)
        assert BY_TIME.settled(look(BY_TIME, 1)[day(1)])
        replica.run(
            None,
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {mariadb.port}, "
            f"MASTER_USER = '{mariadb.user}', MASTER_PASSWORD = '{mariadb.password}', MASTER_USE_GTID = current_pos",
            "START SLAVE SQL_THREAD",
            f"CREATE USER {READER} IDENTIFIED BY '{replica.password}'",
            f"GRANT SELECT, PROCESS ON *.* TO {READER}",
        )
        told = "a replica does not know the transactions of its primary server"

        def why(user: str) -> str:
            monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", user)
            found = look(BY_TIME, 1)[day(1)]
            assert BY_TIME.settled(found) == (not BY_TIME.why_open(found))
            return BY_TIME.why_open(found)

        assert why(READER) == told
        replica.run(None, "STOP SLAVE")  # what the primary has done meanwhile comes later
        assert why(replica.user) == told
        untold = "the account may not see whether the server is a replica; GRANT SLAVE MONITOR ON *.* to it"
        assert why(READER) == untold
        replica.run(None, "RESET SLAVE ALL")  # as of a replica that becomes the primary
        assert (why(replica.user), why(READER)) == ("", untold)


def test_a_table_completes_no_window_if_the_transactions_of_its_engine_are_not_known(shop: MariadbShop) -> None:
    far = replace(BY_TIME, table="far")
    columns = "(id varchar(9) NOT NULL, changed timestamp(6) NOT NULL)"
    for engine in ("MyISAM", "Aria", "MEMORY", "CSV"):
        shop.run(f"CREATE OR REPLACE TABLE far {columns} ENGINE = {engine}")
        assert far.settled(look(far, 1)[day(1)]), engine
    shop.run("INSTALL SONAME 'ha_federatedx'")
    try:
        server = shop.server
        shop.run(
            f"CREATE OR REPLACE TABLE far {columns} ENGINE = FEDERATED CONNECTION = "
            f"'mysql://{server.user}:{server.password}@{server.host}:{server.port}/{NAME}/items'"
        )
        found = look(far, 1)[day(1)]
        assert far.why_open(found) == "the transactions of the storage engine FEDERATED are not known"
        assert not far.settled(found)
    finally:
        shop.run("DROP TABLE far", "UNINSTALL SONAME 'ha_federatedx'")


def test_without_process_no_window_becomes_complete_and_the_summary_says_what_to_grant(reader: MariadbShop) -> None:
    reader.run(f"GRANT SELECT ON shop.items TO {READER}")
    found = look(BY_TIME, 1)[day(1)]
    assert found.summary.endswith("the account may not see transactions of others; GRANT PROCESS ON *.* to it")
    assert not BY_TIME.settled(found) and found.summary.endswith(BY_TIME.why_open(found))
    reader.run(f"GRANT PROCESS, SLAVE MONITOR ON *.* TO {READER}")
    complete = look(BY_TIME, 1)[day(1)]
    assert (BY_TIME.settled(complete), BY_TIME.why_open(complete)) == (True, "")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("TRUNCATE items", "items: shop.shop.items: the sequence of 'no' is at 0, and was at 3"),
        (
            "TRUNCATE items; INSERT INTO items (id) VALUES ('x')",
            "items: shop.shop.items: the highest 'no' is 1, and was 3",
        ),
        (
            f"DROP TABLE items; {MariadbShop.items}",
            "items: shop.shop.items: the sequence of 'no' is at 0, and was at 3",
        ),
        ("DELETE FROM items; ALTER TABLE items AUTO_INCREMENT = 2",
         "items: shop.shop.items: the sequence of 'no' is at 1, and was at 3"),
    ],
)  # fmt: skip
def test_numbers_that_begin_again_stop_the_load(shop: MariadbShop, tmp_path: Path, what: str, told: str) -> None:
    shop.run(*(put(id, "v", 1, None) for id in "abc"))
    look(BY_ID, 1, lake=str(tmp_path))
    shop.run("ALTER TABLE items ADD other int", "OPTIMIZE TABLE items", "DELETE FROM items WHERE no = 1")
    look(BY_ID, 1, 2, lake=str(tmp_path))  # is no reason to stop
    shop.run(*what.split("; "))
    with pytest.raises(SourceUnreadable) as caught:
        look(BY_ID, 1, 2, lake=str(tmp_path))
    assert caught.value.problem == told


def test_numbers_beyond_64_bits_with_a_sign_are_ranges_as_others_are(
    spark: SparkSession, shop: MariadbShop, tmp_path: Path
) -> None:
    shop.run("ALTER TABLE items MODIFY no bigint unsigned", "INSERT INTO items (no, id) VALUES (1, 'a')",
             "INSERT INTO items (no, id) VALUES (18446744073709551615, 'b')")  # fmt: skip
    position = look(BY_ID, 1, lake=str(tmp_path))[day(1)]
    rows = BY_ID.extract(spark, "items", position, ["no", "id"]).select("_raw.*").head(3)
    assert {(int(row.no), row.id) for row in rows} == {(1, "a"), (2**64 - 1, "b")}


def test_names_may_have_any_character_and_windows_any_key(spark: SparkSession, shop: MariadbShop) -> None:
    shop.run(
        """CREATE TABLE `Odd ``ones`` "too" %s` (`a``b` int, `c"d` int, `A'` int, `%s` int, `sélect` int,
          `the \\ time` timestamp NULL)""",
        """INSERT INTO `Odd ``ones`` "too" %s` VALUES (1, 2, 3, 4, 5, '2026-01-01')""",
    )
    source = QueryByTime("shop", 'shop.Odd `ones` "too" %s', modified="the \\ time")
    position = look(source, 1)[day(1)]
    row = values(spark, source, position, "a`b", 'c"d', "A'", "%s", "sélect")
    assert [row[name] for name in ("a`b", 'c"d', "A'", "%s", "sélect")] == [1, 2, 3, 4, 5]
    frame = source.extract_windows(spark, "items", {"it's \\ 1": position}, ["%s"]).select("_window")
    assert frame.head(2) == [("it's \\ 1",)]


def test_names_that_differ_in_case_alone_are_different_tables(spark: SparkSession, shop: MariadbShop) -> None:
    upper = NAME.upper()
    shop.run(
        "CREATE TABLE Items (id int PRIMARY KEY, changed timestamp NULL)",
        "INSERT INTO Items VALUES (1, '2026-01-01 10:00')",
        f"CREATE DATABASE {upper}",
        f"CREATE TABLE {upper}.items (id date, big bigint NOT NULL UNIQUE, changed datetime)",
    )
    try:
        columns = {
            "items": ["no", "id", "value", "seq", "changed"], f"{NAME}.items": ["no", "id", "value", "seq", "changed"],
            "Items": ["id", "changed"], f"{upper}.items": ["id", "big", "changed"],
        }  # fmt: skip
        keys = {"items": {"no"}, f"{NAME}.items": {"no"}, "Items": {"id"}, f"{upper}.items": {"big"}}
        with Database.named("shop").connect() as connection:
            for name, wanted in columns.items():
                table = MYSQL.catalog(connection, name)
                assert table and [column.name for column in table.columns] == wanted
                stated = MYSQL.stated(connection, table)
                assert [column.name for column in stated] == wanted
                assert {column.name for column in stated if column.indexed} == keys[name]
            assert MYSQL.catalog(connection, "ITEMS") is None
        source = replace(BY_TIME, table="Items")
        assert values(spark, source, look(source, 1)[day(1)], "id", "changed")["id"] == 1
    finally:
        shop.run(f"DROP DATABASE {upper}")


def test_a_big_window_is_read_in_pieces_by_the_index_each_row_once(
    spark: SparkSession, shop: MariadbShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_reading, "ROWS_PER_READ", 10)
    shop.run(
        "INSERT INTO items (id, changed) SELECT seq, '2026-01-01' + INTERVAL seq HOUR FROM seq_0_to_95",
        "INSERT INTO items (id) VALUES ('undated')",
        "INSERT INTO items (id, changed) SELECT seq, '2027-01-01' FROM seq_1_to_5000",
        "CREATE INDEX by_time ON items (changed)",
        "ANALYZE TABLE items",
    )
    positions = look(BY_TIME, 1, 2, 3, 4)
    frame = BY_TIME.extract_windows(spark, "items", positions, ["id"])
    rows = frame.select("_window", "_raw.id").head(1000)
    assert len(rows) == len(set(rows)) == 97
    assert "numPartitions=12" in frame._explain_string()  # three for each day
    asked: list[str] = []
    monkeypatch.setattr(type(MYSQL), "statistics", _noting(asked))
    look(BY_TIME, 2)
    inner = "(SELECT id AS c0, changed AS incload_by FROM items) AS _rows"
    asked.append(
        f"SELECT c0 FROM {inner} WHERE incload_by >= TIMESTAMP'2026-01-02 00:00:00.000000' "
        "AND incload_by < TIMESTAMP'2026-01-03 00:00:00.000000'"
    )
    with Database.named("shop").connect() as connection:
        assert ["by_time" in str(connection.rows(f"EXPLAIN {query}")) for query in asked] == [True, True]


def _noting(asked: list[str]) -> Any:
    ask = type(MYSQL).statistics

    def statistics(*given: Any) -> str:
        asked.append(ask(*given))
        return asked[-1]

    return statistics


def test_a_position_changes_with_the_rows_and_with_nothing_else(shop: MariadbShop) -> None:
    shop.run(put("a", "x", 1, "2026-01-01 10:00"), put("b", "x", 1, "2026-01-02 10:00"))
    first = look(BY_TIME, 1, 2)
    shop.run("OPTIMIZE TABLE items", "ALTER TABLE items CONVERT TO CHARACTER SET utf8mb3", "ANALYZE TABLE items")
    assert look(BY_TIME, 1)[day(1)].fingerprint == first[day(1)].fingerprint
    seen = {first[day(1)].fingerprint}
    for change in ("value = NULL", "value = 'NULL'", "id = 'a,x', value = ''", "id = 'a', value = 'X'", "value = 'x '"):
        shop.run(f"UPDATE items SET {change} WHERE seq = 1 AND changed < '2026-01-02'")
        second = look(BY_TIME, 1, 2)
        assert second[day(1)].fingerprint not in seen, change
        assert second[day(2)].fingerprint == first[day(2)].fingerprint
        seen.add(second[day(1)].fingerprint)


def test_the_rights_of_the_documentation_are_enough_and_each_is_needed(
    spark: SparkSession, shop: MariadbShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, *grants = NEEDED
    account, password = "incload_reader", "change-me"
    shop.run(f"DROP USER IF EXISTS {account}", create,
             "CREATE TABLE prices (id text, value text, seq bigint, updated_at timestamp)",
             "CREATE TABLE price_changes (change_id bigint AUTO_INCREMENT PRIMARY KEY, id text)",
             "INSERT INTO prices VALUES ('a', '1', 1, '2026-01-01 10:00')")  # fmt: skip
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", account)
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", password)
    prices = QueryByTime("shop", "prices", modified="updated_at")
    try:
        shop.run(*grants)
        table = make(spark, tmp_path, source=prices, changes=NEWEST)
        table.load(1)
        assert table.rows("id", "value", "seq") == {("a", "1", 1)}
        assert prices.settled(look(prices, 1)[day(1)])
        with shop.connect(user=account, password=password) as one:
            for statement in (
                "INSERT INTO prices (id) VALUES ('x')",
                "DELETE FROM prices",
                "TRUNCATE prices",
                "SELECT * FROM items",
                "CREATE TABLE mine (id int)",
                "SELECT * FROM mysql.user",
            ):
                with pytest.raises(pymysql.err.OperationalError, match="denied"):
                    one.execute(statement)
        with Database.named("shop").connect() as connection:
            assert connection.rows("SELECT @@tx_read_only, @@tx_isolation, @@time_zone") == [
                (1, "REPEATABLE-READ", "+00:00")
            ]
    finally:
        shop.run(f"DROP USER {account}")


@pytest.mark.parametrize("source", [BY_TIME, BY_ID], ids=["by time", "by id"])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP TABLE items", "items: shop.items: there is no such table in the database 'shop'"),
        ("ALTER TABLE items DROP no, DROP changed",
         "items: shop.shop.items: the column '{by}' is not among id, value, seq"),
        ("ALTER TABLE items DROP no, DROP changed, ADD no text, ADD changed date",
         "items: shop.shop.items: the column '{by}' is of type {type}"),
    ],
    ids=["table gone", "column gone", "column of another type"],
)  # fmt: skip
def test_what_is_not_there_is_named(shop: MariadbShop, source: QueryByTime, statement: str, told: str) -> None:
    shop.run(statement)
    error = failed_look(source)
    assert isinstance(error, SourceUnreadable) and error.rule and error.remedy
    assert error.problem == told.format(by=source.by, type={"no": "text", "changed": "date"}[source.by])


def test_refusals_are_named_by_either_driver_and_without_secrets(
    spark: SparkSession, reader: MariadbShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, user, password = (f"INCLOAD_DATABASE_SHOP_{part}" for part in ("URL", "USER", "PASSWORD"))
    reader.run(f"GRANT SELECT (id) ON shop.items TO {READER}")
    assert "SELECT command denied to user 'weak'" in failed_look(BY_TIME).problem  # not rows without columns
    reader.run("CREATE TABLE certificates LIKE items")
    error = failed_look(replace(BY_TIME, table="certificates"))
    assert error.problem.startswith("items: shop.certificates: SELECT command denied to user 'weak'")
    reader.run(f"GRANT SELECT, SHOW VIEW ON shop.items TO {READER}", put("a", "", 1, "2026-01-01"))
    positions = look(BY_TIME, 1)
    reader.run(f"REVOKE ALL, GRANT OPTION FROM {READER}", f"GRANT SELECT ON shop.* TO {READER}", "DROP TABLE items")
    assert failed_look(BY_TIME).problem == "items: shop.items: there is no such table in the database 'shop'"

    def read(**given: str) -> IncrementalLoadError:
        for key, value in given.items():
            monkeypatch.setenv(f"INCLOAD_DATABASE_SHOP_{key}", value)
        database = Database.named("shop")
        with pytest.raises(IncrementalLoadError) as caught, looking("items", "shop.items"):
            properties = database_reading.jdbc_properties(database)
            _ = spark.read.jdbc(database.jdbc_url, "(SELECT id FROM shop.items) AS _rows", properties=properties).schema
        assert "not-to-be-shown" not in str(caught.value)
        return caught.value

    assert read().problem == "items: shop.items: Table 'shop.items' doesn't exist"
    with monkeypatch.context() as patch:
        patch.setattr(type(MYSQL), "driver", "org.mariadb.jdbc.DriverThatIsNotThere")
        without = read()
    assert without.problem == "items: shop.items: Spark has no JDBC driver of MySQL or MariaDB"
    assert (without.transient, "mariadb-java-client" in str(without.remedy)) == (False, True)
    told = "Access denied for user 'weak'"
    for error in (read(PASSWORD="wrong, and not-to-be-shown"), failed_look(BY_TIME)):
        assert isinstance(error, SourceUnreadable) and told in error.problem
    monkeypatch.setenv(password, "not-to-be-shown")
    for error in (read(URL=f"{reader.url}?ssl-mode=REQUIRED"), failed_look(BY_TIME)):
        assert isinstance(error, SourceUnreadable) and "refuses the connection" in error.problem, error
    monkeypatch.setenv(url, f"{reader.url}?ssl-mode=VERIFY_CA&ssl-ca=/nowhere.pem")
    assert "the certificate of ssl-ca cannot be read" in failed_look(BY_TIME).problem
    gone = f"mariadb://127.0.0.1:{free_port()}/{NAME}"
    for error in (read(URL=gone), failed_look(BY_ID)):
        assert isinstance(error, SourceUnavailable) and "is down or the connection was cut" in error.problem, error
    monkeypatch.setenv(url, f"{reader.url.rpartition('/')[0]}/nowhere")
    monkeypatch.setenv(user, reader.server.user)
    assert "Unknown database 'nowhere'" in failed_look(BY_TIME).problem
    assert positions


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("1146: Table 'shop.certificates' doesn't exist", SourceUnreadable, "Table 'shop.certificates' doesn't exist"),
        ("(conn=4) Table 'shop.certificates' doesn't exist", SourceUnreadable, "Table 'shop.certificates' doesn't"),
        ("1054: Unknown column 'certificate' in 'SELECT'", SourceUnreadable, "Unknown column 'certificate'"),
        ("1142: SELECT command denied to user 'weak'@'%' for table `shop`.`certificates`", SourceUnreadable,
         "SELECT command denied to user"),
        ("2013: Lost connection to server during query (SELECT * FROM certificates)", SourceUnavailable,
         "the database is down or the connection was cut"),
    ],
)  # fmt: skip
def test_an_error_that_names_a_table_of_certificates_is_no_refusal(text: str, kind: type[Exception], told: str) -> None:
    error = meaning_of(MYSQL, "items", "shop.certificates", text)
    assert type(error) is kind and error.problem.startswith(f"items: shop.certificates: {told}")


def test_a_look_that_takes_too_long_is_ended(shop: MariadbShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_TIMEOUT", "1")
    shop.run(put("a", "", 1, "2026-01-01 10:00"), "CREATE VIEW slow AS SELECT *, sleep(30) AS slept FROM items")
    error = failed_look(replace(BY_TIME, table="slow"))
    assert isinstance(error, SourceUnavailable)
    assert (
        error.problem
        == "items: shop.slow did not answer in time (Query execution was interrupted (max_statement_time exceeded))"
    )


def test_a_server_that_proves_who_it_is_is_read_over_tls_and_another_one_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, other = Authority(tmp_path), Authority(tmp_path, "other")
    certificate, key = trusted.issue()
    with running_mariadb(f"ssl_cert = {certificate}", f"ssl_key = {key}", "require_secure_transport = on") as server:
        monkeypatch.setattr(server, "connect", _secured(server.connect))
        shop = MariadbShop(server, monkeypatch)
        shop.run(put("a", "", 1, "2026-01-01 10:00"))

        def read(options: str) -> str:
            monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"{shop.url}{options}")
            position = look(BY_TIME, 1)[day(1)]
            try:
                return str(BY_TIME.extract(spark, "items", position, ["id"]).select("_raw.id").head(2)[0].id)
            except IncrementalLoadError as error:
                return error.problem

        whole = f"?ssl-mode=VERIFY_IDENTITY&ssl-ca={trusted.certificate}"
        assert [read(options) for options in ("?ssl-mode=REQUIRED", whole)] == ["a", "a"]
        position = look(BY_TIME, 1)[day(1)]
        for options in (f"?ssl-mode=VERIFY_CA&ssl-ca={other.certificate}", "?ssl-mode=VERIFY_IDENTITY", ""):
            monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"{shop.url}{options}")
            with pytest.raises(SourceUnreadable, match="refuses the connection"):
                look(BY_TIME, 1)
            with pytest.raises(SourceUnreadable, match="refuses the connection"), looking("items", "shop.items"):
                database = Database.named("shop")
                properties = database_reading.jdbc_properties(database)
                _ = spark.read.jdbc(database.jdbc_url, "(SELECT 1 AS one) AS _rows", properties=properties).schema
        assert position


def _secured(connect: Any) -> Any:
    return lambda *given, **options: connect(*given, **({"ssl": {"check_hostname": False}} | options))


def test_a_server_killed_amid_a_read_is_a_transient_error_and_nothing_is_half_applied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_mariadb() as server:
        shop = MariadbShop(server, monkeypatch)
        shop.run(
            "INSERT INTO items (id, value, seq, changed) "
            "SELECT seq, 'v', 1, timestamp'2026-01-01 00:00:00' + INTERVAL seq SECOND FROM seq_1_to_1000",
            # slow where Spark reads, so that there is a middle
            """CREATE FUNCTION slowly(seq bigint) RETURNS bigint READS SQL DATA
              RETURN seq + IF((SELECT count(*) FROM information_schema.processlist WHERE id = connection_id()
                AND info LIKE '%AS _rows%'), sleep(0.01), 0)""",
            "CREATE VIEW slow AS SELECT id, value, changed, slowly(seq) AS seq FROM items",
        )
        items = make(spark, tmp_path, source=replace(BY_TIME, table="slow"), changes=NEWEST)
        reading = "SELECT id FROM information_schema.processlist WHERE info LIKE '%AS _rows%' AND id <> connection_id()"
        survives_a_kill_amid_a_read(items, server, reading)

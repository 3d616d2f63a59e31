"""What PostgreSQL keeps for a connector, until it drops the slot."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from incload_assets.assets import Debezium, Files, ReplicationSlot
from incload_assets.declaration.source import RetentionMargin
from incload_assets.platform.errors import DeclarationError, SourceUnavailable
from tests.servers.postgres import PostgresServer, running_postgres

SLOT = ReplicationSlot("shop", "debezium")
MEGABYTE = 2**20


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """One of its own: a limit on its log would be one for the slots of others."""
    with running_postgres() as server:
        monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", server.database("shop", "CREATE PUBLICATION everything"))
        monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", "looks")
        monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", "and-no-more")
        server.run("shop", "CREATE ROLE looks LOGIN PASSWORD 'and-no-more'")
        yield server


def write(server: PostgresServer, megabytes: int) -> None:
    message = "pg_logical_emit_message(false, 'x', repeat('x', 1000000))"
    server.run("shop", f"SELECT {message} FROM generate_series(1, {megabytes})")


@contextmanager
def reading(server: PostgresServer) -> Iterator[None]:
    """What a connector does: the slot is active."""
    with server.connect("shop", autocommit=True, replication="database") as connection:
        options = b"(proto_version '1', publication_names 'everything')"
        connection.pgconn.send_query(b"START_REPLICATION SLOT debezium LOGICAL 0/0 " + options)
        while not SLOT.headroom("orders").read:
            time.sleep(0.1)
        yield
        with suppress(psycopg.Error):
            connection.pgconn.finish()
    while SLOT.headroom("orders").read:
        time.sleep(0.1)


def test_a_slot_says_how_much_more_may_be_written_until_it_is_dropped(server: PostgresServer) -> None:
    assert SLOT.headroom("orders") == RetentionMargin(
        "the replication slot debezium of shop does not exist: all changes since its reader's last read are lost", 0
    )
    server.run("shop", "SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')")
    write(server, 20)
    free = SLOT.headroom("orders")
    assert (free.left, free.read) == (1, False) and 15_000_000 < (free.kept or 0) < 60_000_000
    assert free.says.endswith(" MB of log, limited only by the disk; nothing reads it now")
    with reading(server):
        assert SLOT.headroom("orders").says.endswith(" MB of log, limited only by the disk")

    server.run("shop", "ALTER SYSTEM SET max_slot_wal_keep_size = '160MB'", "SELECT pg_reload_conf()")
    time.sleep(1)
    before = SLOT.headroom("orders")
    write(server, 80)
    after = SLOT.headroom("orders")
    assert (before.left - after.left) * 160 == pytest.approx(80_000_000 / MEGABYTE, rel=0.1)
    assert " more are written; nothing reads it now" in after.says
    write(server, 100)
    server.run("shop", "CHECKPOINT")
    lost = SLOT.headroom("orders")
    assert (lost.left, lost.says.partition(":")[0]) == (0, "the replication slot debezium of shop was dropped")

    server.stop()
    with pytest.raises(SourceUnavailable, match=r"orders: the replication slot debezium of shop: the database is down"):
        SLOT.headroom("orders")


def test_a_table_of_events_has_the_room_of_its_slot_beside_that_of_its_topic(server: PostgresServer) -> None:
    events = Debezium(Files("{landing}/{window:%Y}/*.json"), table="public.orders", keys=["id"], slot=SLOT)
    assert events.expires_rows
    assert events.headroom("orders", {}, datetime.now(UTC)) == [SLOT.headroom("orders")]


@pytest.mark.parametrize(
    ("slot", "said"),
    [
        (ReplicationSlot("shop", "The-Slot"), "slot.name is 'The-Slot'. Rule: it is up to 63 of"),
        (ReplicationSlot("Shop", "slot"), "slot.database is 'Shop'. Rule: it is letters, digits and _"),
    ],
)
def test_a_name_that_no_slot_can_have_is_refused(tmp_path: Path, slot: ReplicationSlot, said: str) -> None:
    events = Debezium(Files(f"{tmp_path}/{{window:%Y}}/*"), table="public.orders", keys=["id"], slot=slot)
    with pytest.raises(DeclarationError) as raised:
        events.validate("orders")
    assert said in str(raised.value)

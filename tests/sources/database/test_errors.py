"""A database that does not answer, or refuses: said soon, with its name, and without secrets."""

import re
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from incload_assets.declaration.source import Source
from incload_assets.platform import databases
from incload_assets.platform.databases import Database
from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.local_servers.files import free_port
from incload_assets.sources.database.errors import looking, meaning_of
from incload_assets.sources.database.query_by_id import QueryById
from incload_assets.sources.database.query_by_time import QueryByTime
from tests.servers.tls import tls_in_front_of
from tests.support.certificates import Authority
from tests.support.databases import NAME, Shop, put, shop, window
from tests.support.detection import detected

__all__ = ["shop"]
pytestmark = pytest.mark.integration

BY_TIME = QueryByTime("shop", "public.items", modified="changed")
BY_ID = QueryById("shop", "public.items", id="no", lag=timedelta(0))


def failed_look(source: Source) -> IncrementalLoadError:
    begun = time.monotonic()
    with pytest.raises(IncrementalLoadError) as caught:
        detected(source, "items", [window(1)], {}, first=window(1).start, lake=Lake("/nowhere"))
    assert time.monotonic() - begun < 20
    assert "not-to-be-shown" not in str(caught.value)
    return caught.value


def as_reader(shop: Shop, patch: pytest.MonkeyPatch, *grants: str) -> None:
    shop.run("DROP ROLE IF EXISTS weak", "CREATE ROLE weak LOGIN PASSWORD 'not-to-be-shown'", *grants)
    patch.setenv("INCLOAD_DATABASE_SHOP_USER", "weak")


@pytest.mark.parametrize("source", [BY_TIME, BY_ID], ids=["by time", "by id"])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "DROP TABLE items",
            "items: shop.public.items: there is no such table in the database 'shop'",
        ),
        (
            "ALTER TABLE items DROP no, DROP changed",
            "items: shop.public.items: the column '(no|changed)' is not among id, value, seq",
        ),
        (
            "ALTER TABLE items DROP no, ADD no text, ALTER changed TYPE text",
            "items: shop.public.items: the column '(no|changed)' is of type text",
        ),
    ],
    ids=["table gone", "column gone", "column of another type"],
)
def test_what_is_not_there_is_named(shop: Shop, source: Source, statement: str, told: str) -> None:
    shop.run(statement)
    error = failed_look(source)
    assert isinstance(error, SourceUnreadable) and re.fullmatch(told, error.problem), error
    assert error.rule and error.remedy


def test_a_wrong_password_is_a_refusal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", "wrong, and not-to-be-shown")
    error = failed_look(BY_TIME)
    assert isinstance(error, SourceUnreadable)
    assert error.problem == (
        "items: shop.public.items: the server refuses the connection (password authentication failed)"
    )


def test_a_database_that_is_not_there_is_a_refusal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"{shop.url.rpartition('/')[0]}/nowhere")
    error = failed_look(BY_TIME)
    assert isinstance(error, SourceUnreadable)
    assert 'database "nowhere" does not exist' in error.problem


def test_tls_that_the_server_does_not_have_is_a_refusal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"{shop.url}?sslmode=require")
    error = failed_look(BY_TIME)
    assert isinstance(error, SourceUnreadable)
    assert error.problem == "items: shop.public.items: the server refuses the connection (does not support SSL)"


def test_a_missing_permission_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    as_reader(shop, monkeypatch)
    error = failed_look(BY_TIME)
    assert isinstance(error, SourceUnreadable)
    assert error.problem == "items: shop.public.items: permission denied for table items"
    assert "GRANT" in str(error.remedy)


def test_a_permission_that_is_taken_away_before_the_read_is_named(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_reader(shop, monkeypatch, "GRANT SELECT ON items TO weak")
    shop.run(put("a", "", 1, "2026-01-01 10:00"))
    positions = detected(BY_TIME, "items", [window(1)], {}, first=window(1).start)
    shop.run("REVOKE SELECT ON items FROM weak")
    with pytest.raises(SourceUnreadable) as caught:
        BY_TIME.extract_windows(spark, "items", positions, ["id"])
    assert caught.value.problem == "items: shop.public.items: permission denied for table items"


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (psycopg.errors.InsufficientPrivilege("Keine Berechtigung für Tabelle items"), SourceUnreadable, "GRANT"),
        (psycopg.errors.UndefinedTable("Relation »items« existiert nicht"), SourceUnreadable, "restore them"),
        (psycopg.errors.QueryCanceled("storniere Anfrage"), SourceUnavailable, "raise the time-out"),
        (psycopg.errors.AdminShutdown("breche Verbindung ab"), SourceUnavailable, "check that the server runs"),
    ],
)
def test_a_server_may_speak_another_language(error: psycopg.Error, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=str(error)) as caught, looking("items", "shop.public.items"):
        raise error
    assert says in str(caught.value)


def test_a_server_that_is_down_is_transient(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"postgresql://127.0.0.1:{free_port()}/{NAME}")
    error = failed_look(BY_ID)
    assert isinstance(error, SourceUnavailable)
    assert error.problem.startswith("items: shop.public.items: the database is down or the connection was cut")


def test_a_look_that_takes_too_long_is_cancelled(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_TIMEOUT", "1")
    shop.run(
        put("a", "", 1, "2026-01-01 10:00"),
        "CREATE VIEW slow AS SELECT *, pg_sleep(30)::text AS slept FROM items",
    )
    error = failed_look(replace(BY_TIME, table="slow"))
    assert isinstance(error, SourceUnavailable)
    assert error.problem == ("items: shop.slow did not answer in time (canceling statement due to statement timeout)")


def test_an_answer_that_the_network_swallows_is_not_waited_for_for_ever(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "connect_seconds", 1)
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_TIMEOUT", "1")
    database = Database.named("shop")
    with pytest.raises(psycopg.OperationalError) as caught, database.connect() as one:
        one.execute("SET statement_timeout = 0")  # as if its end never arrived
        one.execute("SELECT pg_sleep(60)")
    assert isinstance(meaning_of(databases.POSTGRES, "items", "shop.items", str(caught.value)), SourceUnavailable)


def test_a_lock_on_the_table_does_not_hold_a_look_for_ever(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_TIMEOUT", "1")
    with shop.connect() as owner:
        owner.execute("LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
        assert isinstance(failed_look(BY_TIME), SourceUnavailable)
    assert detected(BY_TIME, "items", [window(1)], {}, first=window(1).start)


def test_a_server_that_proves_who_it_is_is_read_over_tls_and_another_one_is_refused(
    spark: SparkSession, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run(put("a", "", 1, "2026-01-01 10:00"))
    trusted, other = Authority(tmp_path), Authority(tmp_path, "other")
    with tls_in_front_of(shop.server.port, trusted.issue(), asked_before=8) as port:
        url = f"postgresql://127.0.0.1:{port}/{NAME}?sslmode=verify-full&sslrootcert="
        monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"{url}{trusted.certificate}")
        positions = detected(BY_TIME, "items", [window(1)], {}, first=window(1).start)
        rows = BY_TIME.extract_windows(spark, "items", positions, ["id"]).select("_raw.id").head(2)
        assert [row.id for row in rows] == ["a"]

        monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", f"{url}{other.certificate}")
        error = failed_look(BY_TIME)
        assert isinstance(error, SourceUnreadable) and "certificate" in error.problem

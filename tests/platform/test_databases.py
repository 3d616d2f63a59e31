"""Databases by name, from the environment."""

import pytest

from incload_assets.platform.databases import MYSQL, Database
from incload_assets.platform.errors import SourceUnreadable

URL, USER, PASSWORD = (f"INCLOAD_DATABASE_SHOP_{part}" for part in ("URL", "USER", "PASSWORD"))


def name(patch: pytest.MonkeyPatch, url: str) -> None:
    patch.setenv(URL, url)
    patch.setenv(USER, "reader")
    patch.setenv(PASSWORD, "not-to-be-shown")


def test_a_database_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    name(monkeypatch, "postgresql://db.example:6432/my%20shop?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    assert Database.named("shop") == Database(
        name="shop",
        host="db.example",
        port=6432,
        catalog="my shop",
        user="reader",
        password="not-to-be-shown",
        tls={"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"},
        timeout=300,
    )
    assert "not-to-be-shown" not in repr(Database.named("shop"))


def test_the_address_for_spark_has_the_tls_options_and_bounds_and_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    name(monkeypatch, "postgres://[::1]/shop?sslmode=require")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_TIMEOUT", "60")
    url, _, query = Database.named("shop").jdbc_url.partition("?")
    options, _, session = query.partition("&options=")
    assert url == "jdbc:postgresql://[::1]:5432/shop"
    assert options == (
        "sslmode=require&ApplicationName=incload&connectTimeout=10&loginTimeout=20&socketTimeout=70&tcpKeepAlive=true"
    )
    assert session.startswith("-c%20default_transaction_read_only%3Don%20-c%20statement_timeout%3D60000%20")


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_mysql_and_mariadb_are_one_dialect_whose_options_are_those_of_mysql(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    name(monkeypatch, f"{scheme}://[::1]/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem")
    database = Database.named("shop")
    assert (database.dialect, database.port, database.jdbc_url) == (MYSQL, 3306, "jdbc:mariadb://[::1]:3306/")
    options = database.dialect.jdbc_options(database)
    assert (options["sslMode"], options["serverSslCert"]) == ("verify-full", "/etc/ca.pem")
    assert (options["connectTimeout"], options["socketTimeout"]) == ("10000", "310000")
    assert database.encrypted == (True, "ssl-mode is VERIFY_IDENTITY")
    name(monkeypatch, f"{scheme}://db.example/shop")
    assert Database.named("shop").encrypted == (False, "ssl-mode is DISABLED")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "database 'shop': INCLOAD_DATABASE_SHOP_URL is not set"),
        ("postgresql://reader:not-to-be-shown@db/shop", "database 'shop': INCLOAD_DATABASE_SHOP_URL holds an account"),
        (
            "postgresql://db:not-to-be-shown/shop",
            "database 'shop': INCLOAD_DATABASE_SHOP_URL is no URL, or its port or INCLOAD_DATABASE_SHOP_TIMEOUT is no "
            "number",
        ),
        (
            "oracle://db/shop",
            "database 'shop': INCLOAD_DATABASE_SHOP_URL lacks the host or the database, or has another scheme",
        ),
        (
            "mysql://db/shop?ssl-mode=PREFERRED",
            "database 'shop': INCLOAD_DATABASE_SHOP_URL: ssl-mode has an unknown value",
        ),
        (
            "mysql://db/shop?ssl-ca=/etc/ca.pem",
            "database 'shop': INCLOAD_DATABASE_SHOP_URL: ssl-ca has no effect, because ssl-mode is DISABLED; "
            "it needs VERIFY_CA or VERIFY_IDENTITY",
        ),
        (
            "postgresql://db/shop?sslmode=require&password=not-to-be-shown",
            "database 'shop': INCLOAD_DATABASE_SHOP_URL has the options ['password']",
        ),
    ],
)
def test_a_wrong_address_is_told_without_showing_it(monkeypatch: pytest.MonkeyPatch, url: str, told: str) -> None:
    name(monkeypatch, url)
    with pytest.raises(SourceUnreadable) as caught:
        Database.named("shop")
    assert caught.value.problem == told
    assert "not-to-be-shown" not in str(caught.value) and caught.value.remedy


def test_a_name_that_no_variable_can_have_is_refused() -> None:
    with pytest.raises(SourceUnreadable, match="database 'My shop': invalid name"):
        Database.named("My shop")

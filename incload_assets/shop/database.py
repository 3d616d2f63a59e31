"""The shop's own database: a PostgreSQL that its application writes prices into, as its clock advances."""

from datetime import datetime

from incload_assets.shop.calendar import Calendar
from incload_assets.shop.prices import prices
from incload_assets.sources.postgres.errors import looking
from resources.databases import Database, provide
from resources.samples.database import find_or_start
from resources.settings import Settings

DATABASE = "sample_shop"
"""Its name: ``INCLOAD_DATABASE_SAMPLE_SHOP_URL`` and so on; where they are not set, one that is started on demand."""
PRICES = "shop.prices"
PRICE_CHANGES = "shop.price_changes"
"""Every price ever set, numbered: rows are only ever added."""

_TABLE = [
    "CREATE SCHEMA IF NOT EXISTS shop",
    """CREATE TABLE IF NOT EXISTS shop.prices (
        sku text PRIMARY KEY,
        price numeric(10,2) NOT NULL,
        discontinued boolean NOT NULL,
        valid_from timestamptz NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now()
    )""",
    "CREATE INDEX IF NOT EXISTS prices_updated_at ON shop.prices (updated_at)",
    """CREATE TABLE IF NOT EXISTS shop.price_changes (
        change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sku text NOT NULL,
        price numeric(10,2) NOT NULL,
        discontinued boolean NOT NULL,
        valid_from timestamptz NOT NULL,
        written_at timestamptz NOT NULL DEFAULT now()
    )""",
]
# As in any application, a row's time is the database's: what the shop did in a week that it catches up with was done,
# for whoever reads the table, today. Times of the shop's clock would fall into windows that are over and settled.
_SET = """
INSERT INTO shop.prices (sku, price, discontinued, valid_from) VALUES (%s, %s, %s, %s)
ON CONFLICT (sku) DO UPDATE SET price = excluded.price, discontinued = excluded.discontinued,
  valid_from = excluded.valid_from, updated_at = now()
"""
_NOTE = "INSERT INTO shop.price_changes (sku, price, discontinued, valid_from) VALUES (%s, %s, %s, %s)"


def write_prices(settings: Settings, calendar: Calendar, until: datetime) -> int:
    """Bring the database up to an instant of the shop's clock.

    It knows itself how far it is: what it missed while it was not there is written, and nothing is written twice.

    Args:
        settings: Say where the home folder is.
        calendar: The shop's.
        until: UTC.

    Returns:
        How many prices were set.

    Raises:
        SourceUnavailable: The database is not there.
        SourceUnreadable: The environment names one that cannot be used.
    """
    database = Database.named(DATABASE, lambda: find_or_start(DATABASE, settings))
    with looking("shop", f"{DATABASE}.{PRICES}"), database.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")  # tables are read by connections that keep it
        if connection.execute("SELECT to_regclass(%s)", [PRICE_CHANGES]).fetchone() == (None,):
            for statement in _TABLE:
                connection.execute(statement)
        with connection.transaction():
            [(since,)] = connection.execute("SELECT max(valid_from) FROM shop.prices").fetchall()
            news = prices(calendar, since, until)
            values = [(price.sku, price.price, price.discontinued, price.valid_from) for price in news]
            for statement in (_SET, _NOTE):
                connection.cursor().executemany(statement, values)
    return len(news)


provide(DATABASE, lambda: find_or_start(DATABASE, Settings()))

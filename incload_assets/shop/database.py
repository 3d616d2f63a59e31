"""The shop's database: a PostgreSQL into which its application writes prices as the shop's clock advances."""

from datetime import datetime

from incload_assets.platform.databases import Database, provide
from incload_assets.platform.samples.database import find_or_start
from incload_assets.platform.settings import Settings
from incload_assets.shop.calendar import Calendar
from incload_assets.shop.prices import prices
from incload_assets.sources.database.errors import looking

DATABASE = "sample_shop"
"""The database's name, for ``INCLOAD_DATABASE_SAMPLE_SHOP_URL`` etc.; if unset, a server is started on demand."""
PRICES = "shop.prices"
PRICE_CHANGES = "shop.price_changes"
"""The table of every price ever set, numbered and append-only."""

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
# As in any application, a row's time is the database's time: when the shop catches up with a week, all its rows are
# dated today. Times of the shop's clock would fall into windows that are over and settled.
_SET = """
INSERT INTO shop.prices (sku, price, discontinued, valid_from) VALUES (%s, %s, %s, %s)
ON CONFLICT (sku) DO UPDATE SET price = excluded.price, discontinued = excluded.discontinued,
  valid_from = excluded.valid_from, updated_at = now()
"""
_NOTE = "INSERT INTO shop.price_changes (sku, price, discontinued, valid_from) VALUES (%s, %s, %s, %s)"


def write_prices(settings: Settings, calendar: Calendar, until: datetime) -> int:
    """Writes all prices up to an instant of the shop's clock (UTC); returns their number.

    The database itself records the progress: prices that were missed while it was not available are written later, and
    none is written twice. Raises SourceUnavailable, or SourceUnreadable if the configured database cannot be used.
    """
    database = Database.named(DATABASE, lambda: find_or_start(DATABASE, settings))
    with looking("shop", f"{DATABASE}.{PRICES}"), database.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")  # loads read through connections that keep it on
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

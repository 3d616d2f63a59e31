"""Tables of a real PostgreSQL, by time and by number."""

from typing import ClassVar

from tests.sources.case_database import PASSWORD, READER, ById, ByTime, DatabaseCase


class PostgresCase(DatabaseCase):
    """A schema and a role."""

    named = r"shop\.(public\.)?everything"
    table = "public.everything"
    amid = 6000
    server_fixture = "postgres"
    sql_types: ClassVar = {
        "str": "text", "Decimal": "numeric", "int": "bigint", "float": "float8", "bool": "boolean", "date": "date",
        "datetime": "timestamptz", "number": "bigserial", "changed": "timestamptz",
    }  # fmt: skip
    account = (
        f"DO $$ BEGIN CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"GRANT SELECT ON everything TO {READER}",
    )


class PostgresByTime(PostgresCase, ByTime):
    """By the time of the last change."""

    name = "postgres by time"


class PostgresById(PostgresCase, ById):
    """By number."""

    name = "postgres by id"

"""Tables of a real MariaDB, by time and by number."""

from typing import ClassVar

from tests.sources.case_database import DATABASE, PASSWORD, READER, ById, ByTime, DatabaseCase


class MariadbCase(DatabaseCase):
    """A database and an account that sees transactions."""

    named = rf"shop\.({DATABASE}\.)?everything"
    table = "everything"
    amid = 2000
    server_fixture = "mariadb"
    sql_types: ClassVar = {
        "str": "text", "Decimal": "decimal(65,30)", "int": "bigint", "float": "double", "bool": "boolean",
        "date": "date", "datetime": "datetime(6)", "number": "bigint AUTO_INCREMENT PRIMARY KEY",
        "changed": "timestamp(6) NULL",
    }  # fmt: skip
    in_utc: ClassVar = {"init_command": "SET time_zone = '+00:00'"}
    account = (
        f"CREATE USER IF NOT EXISTS {READER} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT SELECT ON {DATABASE}.everything TO {READER}",
        f"GRANT PROCESS, SLAVE MONITOR ON *.* TO {READER}",
    )


class MariadbByTime(MariadbCase, ByTime):
    """By the time of the last change."""

    name = "mariadb by time"


class MariadbById(MariadbCase, ById):
    """By number."""

    name = "mariadb by id"

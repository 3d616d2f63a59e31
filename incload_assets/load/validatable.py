"""The rejected rows that can be validated again, and the records of their payloads."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.payloads import is_expired, keeps_payload
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.wording import several
from incload_assets.protection.protect import is_kept_protected, protected_records
from incload_assets.sources.files.csv import UNPARSED
from incload_assets.sources.kafka.framed import UNREAD


def fields_of_payloads(table: Table) -> list[str]:
    """The fields that are read from payloads."""
    return [*table.columns, *table.control_fields]


def can_be_validated(table: Table) -> Column:
    """True if a rejected row keeps the whole record: it could be parsed, or it is JSON, which shows by itself."""
    if table.contract.protections:
        return is_kept_protected()
    first = F.try_element_at("_reasons", F.lit(1))
    unparsed = first.rlike(UNPARSED) | first.startswith(UNREAD)
    return keeps_payload() & ~F.coalesce((F.size("_reasons") == 1) & unparsed, F.lit(False))


def records_of_payloads(kept: DataFrame, table: Table) -> DataFrame:
    """The records of the payloads that rejected rows of the log keep, parsed by the source, or as protected before."""
    if table.contract.protections:
        return protected_records(kept.filter(is_kept_protected()), table)
    rows = kept.filter(keeps_payload()).select("_payload", "_source", "_window")
    return table.source.read_payloads(rows, fields_of_payloads(table))


def refuse_expired(table: Table, window: Window, rejected: DataFrame) -> None:
    """Refuses a window in which no rejected row of the log keeps its record, if records were removed."""
    if expired := rejected.filter(is_expired()).count():
        raise SourceUnreadable(
            f"{table.name} {window.key}: the records of {several(expired, 'rejected row')} were removed after "
            f"{table.quarantine_retention}",
            rule="a replay validates the records that rejected rows keep, and they are kept for quarantine_retention",
            remedy=f"load the window from its source: incload load {table.name} --partitions {window.key}",
        )

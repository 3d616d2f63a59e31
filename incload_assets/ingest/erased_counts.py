"""The numbers of rows of erased subjects, and what a window's record says once they are gone."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from incload_assets.change_log.change import REJECTED, REPLACED, SNAPSHOT
from incload_assets.change_log.window_records import WindowRecord

MOST_KINDS = 16
"""More than there are kinds of rows."""
NO_RECORDS = (REPLACED, SNAPSHOT)
"""Kinds of rows that are not counted as records of the source."""


def counts_by_kind(rows: DataFrame) -> dict[str, int]:
    """The number of rows of each kind."""
    return {row["_kind"]: row["count"] for row in rows.groupBy("_kind").count().head(MOST_KINDS)}


def records_in(counts: Mapping[str, int]) -> int:
    """The number of records of the source among rows counted by kind; markers of replaced rows are none."""
    return sum(count for kind, count in counts.items() if kind not in NO_RECORDS)


def without_erased_records(record: WindowRecord, erased: Mapping[str, int]) -> WindowRecord:
    """The record of a window without its rows of erased subjects, counted by kind: they are in the bin *erased*."""
    return replace(
        record,
        rejected=record.rejected - erased.get(REJECTED, 0),
        erased=record.erased + records_in(erased),
        content=None if erased else record.content,
    )

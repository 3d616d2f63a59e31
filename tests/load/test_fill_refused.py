"""What a fill refuses: told with table, column, rule and remedy, and no row is changed."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import Masked
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import window_of
from incload_assets.load.fill import fill_window, refuse_unfillable
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError, SourceUnreadable, WindowCompacted
from incload_assets.sources.files.files import Files
from tests.load.test_fill import Channel, landing, write
from tests.maintenance.test_compact_logs import compacted
from tests.support.tables import Item, Loaded, day, make

__all__ = ["landing"]

JSON = Files("{landing}/items/{window:%Y-%m-%d}.json")
MOVED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", unavailable="?", moved_when="op = 'c'")


class Guest(Channel):
    """An item whose card is protected."""

    card: T.StringType = pa.Field(nullable=True, metadata={"personal": Masked(keep=4)})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"contract": Guest},
            "of fields that its contract does not declare the log keeps the names alone, as it has protected columns",
        ),
        ({"changes": MOVED}, r"its changes may give rows new keys \(moved_when\)"),
        (
            {"source": Files("{landing}/{window:%Y-%m-%d}.parquet")},
            "the payload of a Parquet, ORC or Avro record does not keep the types of its values, .*",
        ),
    ],
    ids=["protected columns", "keys that move", "typed values"],
)
def test_a_table_whose_log_does_not_tell_of_records_is_refused_by_its_declaration(
    options: dict[str, Any], why: str
) -> None:
    told = (
        rf"items: its columns cannot be filled from the log: {why}\. Rule: a fill uses what the log has of a "
        r"record, and never .*\. Remedy: load the partitions from the source: incload load items --partitions KEYS\."
    )
    with pytest.raises(SourceUnreadable, match=told):
        refuse_unfillable(_table(**options))
    refuse_unfillable(_table())


def _table(**options: Any) -> Table:
    usual: dict[str, Any] = {"source": JSON, "contract": Channel}
    return make(None, Path(), **usual | options).table  # type: ignore[arg-type]  # nothing is loaded


def doubled(changes: DataFrame) -> DataFrame:
    return changes.withColumn("value", changes["channel"].cast("string"))


OTHER_USES: dict[str, tuple[dict[str, Any], str]] = {
    "function": ({"function": doubled}, "its function changes value of rows of the log"),
    "condition": (
        {"changes": Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd' OR channel = 9")},
        "conditions of its changes read channel",
    ),
    "sequence": (
        {"changes": Changes(keys=["id"], sequence_by=["seq", "channel"], delete_when="op = 'd'")},
        "its changes are ordered by channel",
    ),
}


def test_a_fill_that_is_refused_changes_no_row_and_no_window_record(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    def at(contract: type, **options: Any) -> Loaded:
        return make(
            spark, tmp_path / "lake", source=JSON, contract=contract, log_retention=timedelta(days=30), **options
        )

    old, new = at(Item), at(Channel, code_version="2")
    for number in (1, 2):
        write(landing, number, [{"id": f"{number}", "value": "v", "seq": number, "channel": 3}])
        old.load(number)

    def check(table: Loaded, number: int, error: type[Exception], told: str) -> None:
        def seen() -> Any:
            names = ("_window", "_kind", "_control")
            return old.rows(), old.log("upsert", *old.table.columns, "_rescued"), old.log("control", *names)

        window, before = window_of(table.table.partitions_def, day(number)), seen()
        with pytest.raises(error, match=told):
            fill_window(LoadContext(spark, table.table, table.lake), window)
        assert seen() == before

    for options, use in OTHER_USES.values():
        told = (
            rf"items 2026-01-01: channel cannot be filled from the log: {use}\. Rule: the log has what the function "
            r"returned, .*Remedy: load the partition from its source: incload load items --partitions 2026-01-01\."
        )
        check(at(Channel, code_version="2", **options), 1, DeclarationError, told)
    never = r"items 2026-01-05: it was never loaded\. Rule: .*Remedy: load it: incload load items --partitions"
    check(new, 5, IncrementalLoadError, never)
    undo_window(LoadContext(spark, new.table, new.lake), window_of(new.table.partitions_def, day(2)), Undo(actor="ada"))
    held = (
        r"items 2026-01-02: it is held by ada .*Rule: .*held windows alone\. Remedy: release it first: incload release"
    )
    check(new, 2, IncrementalLoadError, held)
    compacted(new)
    gone = r"items 2026-01-01: its log was compacted on .*Rule: a fill lands all .*-01-01 --rewrite-compacted"
    check(new, 1, WindowCompacted, gone)

"""Columns that are declared later are filled from what was rescued, as if the same records had been landed then."""

import json
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.functions as F
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession

from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.load.fill import fill_window
from incload_assets.load.load import LoadReport
from incload_assets.load.undo_plan import kept_landings
from incload_assets.platform.errors import DeclarationError, SourceUnreadable
from incload_assets.sources.files.files import Files
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from tests.support.tables import Item, Loaded, day, make

COLUMNS = ("id", "value", "seq", "channel", "_window", "_kind", "_hash", "_rescued", "_reasons")


class Channel(Item):
    """An item with the channel that it came through."""

    channel: T.LongType = pa.Field(nullable=True, ge=0)


def records(number: int) -> list[dict[str, Any]]:
    """Changes with a channel, without one, with NULL, a delete, and other fields that stay unknown."""
    return [
        {"id": "a", "value": "1", "seq": number * 10, "channel": number},
        {"id": "b", "value": "2", "seq": number * 10 + 1},
        {"id": "c", "value": "3", "seq": number * 10 + 2, "channel": "7", "other": 1.5},
        {"id": "d", "value": "4", "seq": number * 10 + 3, "channel": None},
        {"id": "e", "value": "5", "seq": number * 10 + 4, "channel": 5},
        {"id": "e", "value": "5", "seq": number * 10 + 5, "channel": 5, "op": "d"},
        {"id": "a", "seq": number * 10 + 6, "channel": number + 1},
        {"id": "f", "value": "6", "seq": "none", "channel": 1},
    ]


def write(landing: Path, number: int, rows: list[dict[str, Any]], kind: str = "json") -> Path:
    path = landing / "items" / f"{day(number)}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        names = ["id", "value", "seq", "channel", "op", "other"]
        texts = [["" if row.get(name) is None else str(row[name]) for name in names] for row in rows]
        path.write_text("".join(",".join(line) + "\n" for line in [names, *texts]))
    return path


def table(spark: SparkSession, folder: Path, contract: type, version: str, kind: str = "json", **more: Any) -> Loaded:
    source = Files("{landing}/items/{window:%Y-%m-%d}." + kind)
    return make(
        spark,
        folder,
        source=source,
        contract=contract,
        code_version=version or None,
        quarantine=Quarantine(max_share=0.6),
        **more,
    )


def fill(loaded: Loaded, number: int) -> LoadReport:
    return fill_window(loaded.context(), window_of(loaded.table.partitions_def, day(number)))


def log_of(loaded: Loaded, *more: str) -> list[Any]:
    delta = loaded.lake.delta(loaded.lake.log_uri(loaded.table.key.path))
    assert delta is not None
    rows = delta.to_pyarrow_table(columns=[*COLUMNS, *more]).to_pylist()
    rows = [row | {"_rescued": json.loads(row["_rescued"] or "{}")} for row in rows]
    return sorted((row for row in rows if row["_kind"] not in ("control", "replaced")), key=repr)


def table_of(loaded: Loaded) -> list[Any]:
    delta = loaded.lake.delta(loaded.uri)
    assert delta is not None
    return sorted(delta.to_pyarrow_table(columns=list(loaded.table.schema.names)).to_pylist(), key=repr)


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    return tmp_path / "landing"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("json", {"write": Merge()}),
        ("csv", {"write": Merge(), "function": lambda rows: rows.withColumn("value", F.trim("value"))}),
        ("json", {"write": Merge(partial=True)}),
        ("json", {"write": History()}),
        ("json", {"write": History(partial=True)}),
    ],
    ids=["json", "csv", "partial", "history", "partial history"],
)
def test_a_filled_table_equals_one_that_is_loaded_fresh(
    spark: SparkSession, tmp_path: Path, landing: Path, kind: str, options: dict[str, Any]
) -> None:
    paths = [write(landing, number, records(number), kind) for number in (1, 2)]
    fresh = table(spark, tmp_path / "fresh", Channel, "2", kind, **options)
    old = table(spark, tmp_path / "lake", Item, "1", kind, **options)
    for number in (1, 2):
        fresh.load(number)
        old.load(number)
    for path in paths:
        path.unlink()
    new = table(spark, tmp_path / "lake", Channel, "2", kind, **options)
    reports = [fill(new, number) for number in (1, 2)]
    assert log_of(new) == log_of(fresh)
    assert table_of(new) == table_of(fresh)
    assert [report.evidence.pending for report in reports] == [0, 0]
    versions = new.versions()
    assert not fill(new, 1).ingested  # nothing is left to fill, and nothing is landed
    assert log_of(new) == log_of(fresh) and table_of(new) == table_of(fresh)
    assert versions.keys() == new.versions().keys()


def test_values_that_do_not_fit_are_quarantined_and_filled_when_the_contract_fits(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    rows = [{"id": str(n), "value": "v", "seq": n, "channel": channel} for n, channel in enumerate([1, "web", -1, 4])]
    path = write(landing, 1, rows)
    fresh = table(spark, tmp_path / "fresh", Channel, "2")
    fresh.load(1)
    table(spark, tmp_path / "lake", Item, "1").load(1)
    path.unlink()
    new = table(spark, tmp_path / "lake", Channel, "2")
    assert fill(new, 1).record.rejected == 2
    assert new.log("rejected", "id", "_reasons") == fresh.log("rejected", "id", "_reasons")
    assert table_of(new) == table_of(fresh)

    wide = type("Wide", (Channel,), {"__annotations__": {"channel": T.LongType}, "channel": pa.Field(nullable=True)})
    again = fill(table(spark, tmp_path / "lake", wide, "3"), 1)
    assert again.record.rejected == 1
    assert ("2", -1) in new.rows("id", "channel")


def test_what_the_function_makes_of_a_new_column_is_not_guessed(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    write(landing, 1, [{"id": "a", "value": "v", "seq": 1, "channel": 3}])
    table(spark, tmp_path, Item, "1").load(1)

    def uses(changes: DataFrame) -> DataFrame:
        return changes.withColumn("value", F.coalesce(F.col("channel").cast("string"), F.col("value")))

    with pytest.raises(DeclarationError, match="its function changes value of rows of the log") as refused:
        fill(table(spark, tmp_path, Channel, "2", function=uses), 1)
    assert "Remedy: load the partition from its source" in str(refused.value)
    parquet = make(spark, tmp_path, source=Files("{landing}/{window:%Y-%m-%d}.parquet"), contract=Channel)
    with pytest.raises(SourceUnreadable, match="cannot be filled from the log"):
        fill(parquet, 1)


def test_a_window_is_validated_by_the_present_code_if_that_differs_by_the_columns_alone(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    write(landing, 1, [{"id": "a", "value": "v", "seq": 1, "channel": 3}])
    table(spark, tmp_path, Item, "").load(1)
    new = table(spark, tmp_path, Channel, "")
    assert fill(new, 1).record.code_version == new.table.code_version
    write(landing, 2, [{"id": "b", "value": "v", "seq": 1, "channel": 3}])
    table(spark, tmp_path, Item, "other").load(2)
    assert fill(new, 2).record.code_version == "other"
    assert [one.number for one in kept_landings(new.table, new.lake, [day(2)]) if one.is_next] == [1]

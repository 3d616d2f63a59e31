"""Records that reach Spark by way of the landing area."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.json import json_records
from incload_assets.sources.staging import staged_json
from tests.sources.case import Place
from tests.sources.case_files import S3Files

NOW = time.time()
YESTERDAY = NOW - 25 * 3600


def staged(landing: Path) -> list[str]:
    return sorted(path.name for path in (landing / "_staged").rglob("*.json"))


def test_records_come_back_as_they_went_in_and_say_which_file_they_were_in(spark: SparkSession, landing: Path) -> None:
    records = [{"id": 1, "name": "é\n🎈", "more": [1]}, {"id": 12345678901234567890, "name": None}, {"name": "\ud83d"}]
    rows = (
        staged_json(spark, "shop/orders", "2026-01-01-00:00/v1", records, ["id", "name"]).orderBy("_source").collect()
    )
    [file] = staged(landing)
    assert file.startswith("2026-01-01-00-00-v1.")
    assert [(tuple(row["_raw"]), row["_rescued"], row["_malformed"]) for row in rows] == [
        (("1", "é\n🎈"), '{"more":[1]}', None),
        (("12345678901234567890", None), None, None),
        ((None, None), None, "not valid UTF-8"),
    ]
    assert [tuple(row["_source"]) for row in rows] == [(f"_staged/shop/orders/{file}", 0, n) for n in (1, 2, 3)]


@pytest.mark.parametrize("name", ["_2026", ".2026", "..", "_", "2026._COPYING_"])
def test_records_are_read_whatever_the_name_they_are_given(spark: SparkSession, landing: Path, name: str) -> None:
    assert staged_json(spark, "_orders", name, [{"id": 1}], ["id"]).count() == 1


def test_what_a_table_staged_is_removed_after_a_day(spark: SparkSession, landing: Path) -> None:
    for table, name, age in (("items", "old", YESTERDAY), ("items", "new", NOW), ("others", "old", YESTERDAY)):
        staged_json(spark, table, name, [{"id": 1}], ["id"])
        [file] = (landing / "_staged" / table).glob(f"{name}.*")
        os.utime(file, (age, age))
    staged_json(spark, "items", "last", [], ["id"])
    assert [name.partition(".")[0] for name in staged(landing)] == ["last", "new", "old"]
    assert len(list((landing / "_staged" / "others").iterdir())) == 1


def test_a_source_that_fails_while_its_records_are_staged_fails_with_its_own_error(
    spark: SparkSession, landing: Path
) -> None:
    def records() -> Iterator[dict[str, int]]:
        yield {"id": 1}
        raise SourceUnavailable("items: the shop is closed", remedy="come again")

    with pytest.raises(IncrementalLoadError, match="the shop is closed"):
        staged_json(spark, "items", "a", records(), ["id"])


def test_json_texts_of_any_place_become_records_with_the_columns_that_are_kept(spark: SparkSession) -> None:
    texts = spark.sql("""
        SELECT value, named_struct('file', 'topic', 'block', 0L, 'row', offset) AS _source, 'w' AS _window
        FROM VALUES ('{"id": 1.50, "x": {"y": 1}}', 7L), (NULL, 8L), ('[1]', 9L) AS t(value, offset)""")
    rows = json_records(texts, ["id"], "_window").orderBy("_source").collect()
    assert [(r["_raw"]["id"], r["_rescued"], r["_malformed"], r["_source"]["row"], r["_window"]) for r in rows] == [
        ("1.5", '{"x":{"y":1}}', None, 7, "w"),
        (None, None, "no value", 8, "w"),
        (None, None, "not a JSON object", 9, "w"),
    ]


@pytest.mark.integration
def test_a_landing_area_on_s3_will_do(
    spark_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    with open_session(spark_settings) as spark:
        place = Place(tmp_path, spark, monkeypatch, request)
        with place.closing:
            S3Files(place)
            for id in (1, 2):
                row = staged_json(spark, "items", "a:b", [{"id": id}], ["id"]).first()
                assert row and row["_raw"]["id"] == str(id)
                assert row["_source"]["file"].startswith("_staged/items/a-b.")

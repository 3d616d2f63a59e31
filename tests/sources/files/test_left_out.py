"""Files that a path leaves out because of their names."""

from datetime import UTC, datetime

import pytest

from incload_assets.sources.files.compressed import Format
from incload_assets.sources.files.left_out import left_out
from incload_assets.sources.files.listing import Listed
from incload_assets.sources.files.template import Template
from tests.support.files import day


def told(path: str, *names: str, declared: Format | None = None, size: int = 9) -> list[str]:
    """Those of some files that are left out by a path, where days 1 and 2 are asked about."""
    template = Template.parse("orders", path, "/landing")
    times = None if template.is_flat else {template.times_of(day(number)) for number in (1, 2)}
    files = [Listed(f"/landing/{name}", size, datetime.now(UTC)) for name in names]
    return [file.path.removeprefix("/landing/") for file in left_out(template, declared, files, times)]


DATA = [
    "_a.json", ".a.json", "__a.json", "a.json.tmp", "a.json.part", "a.json._COPYING_", "a.json~", ".a.json.X7q2",
    "a.json.gz", "a.json.zst", "a.json.bz2", "a.json.zip", "A.JSON", "a.Json", "a.jsonl", "a.ndjson", "a.jsonl.gz",
    "a.json.bak", "a.json.1", "a.json (1)", "_a=1.json", "line\nbreak.json.gz", "_metadata.json",
]  # fmt: skip
NO_DATA = [
    "a.json", "_SUCCESS", "_committed_123", "_started_123", "_metadata", ".DS_Store", ".a.json.crc", "a.json.crc",
    "a.json.md5", "a.json.sha256", "a.json.SHA-256", "a.json.done", "a.json.ok", "a.json.lock", ".a.json.swp",
    "._a.json", "a.csv", "a.jsonx", "a.parquet", "README", "notes.txt", "sub/_a.json", "_sub/a.json", "json",
]  # fmt: skip


@pytest.mark.parametrize("path", ["{landing}/*.json", "{landing}/**/*.json"])
def test_data_beside_a_glob_is_told_and_what_tells_of_others_is_not(path: str) -> None:
    names = [name for name in NO_DATA if not ("**" in path and name == "sub/_a.json")]
    assert told(path, *DATA, *names) == DATA


def test_each_day_and_each_folder_is_looked_through() -> None:
    names = ["2026-01-02/_a.csv", "2026-01-02/x/y/a.csv.gz", "2026-01-03/_a.csv", "2026-01-02/x/_y/a.csv.gz"]
    assert told("{landing}/{window:%Y-%m-%d}/**/*.csv", *names) == names[:2]
    assert told("{landing}/{window:%Y-%m-%d}/*.csv", *names) == names[:1]
    assert told("{landing}/{window:%Y-%m-%d/}*.csv", *names) == names[:1]


def test_the_time_in_a_name_is_that_of_a_window() -> None:
    names = ["_corrections_2026-01-02.csv", "_corrections_2026-01-05.csv", "x_2026-01-01.csv.tmp", "2026-01-01.CSV"]
    assert told("{landing}/*{window:%Y-%m-%d}.csv", *names) == [names[0], *names[2:]]
    assert told("{landing}/{window:%Y-%m-%d}.csv", *names) == ["2026-01-01.CSV"]
    assert told("{landing}/*{window:%Y-%m-%d}", *names) == [*names[:1], *names[2:]]


def test_files_of_another_table_in_the_same_folder_are_nothing_to_tell() -> None:
    names = ["orders-1.csv", "customers-1.csv", "_customers-1.csv", "_orders-1.csv", "Orders-2.csv", "orders.csv"]
    assert told("{landing}/orders-*.csv", *names) == ["_orders-1.csv", "Orders-2.csv"]


@pytest.mark.parametrize("path", ["{landing}/*", "{landing}/**", "{landing}/a*", "{landing}/?*"])
def test_where_a_path_has_no_extension_the_names_that_no_glob_matches_are_told(path: str) -> None:
    hidden = ["_a.json", ".a.csv", "a.csv.tmp", "a.parquet~"]
    names = [*hidden, "a.json", "a.csv", "_SUCCESS", ".DS_Store", ".a.csv.crc", "_started_1", "a"]
    assert told(path, *names, "_a", "a.tmp") == hidden
    assert told(path, *names, "_a", "a.tmp", declared="csv") == [*hidden, "_a", "a.tmp"]


def test_an_extension_that_is_declared_is_one_of_its_format() -> None:
    names = ["a.txt", "a.csv", "a.TXT", "_a.txt", "a.txt.gz", "a.json"]
    assert told("{landing}/*.txt", *names, declared="csv") == ["a.csv", "a.TXT", "_a.txt", "a.txt.gz"]
    assert told("{landing}/*.csv.gz", "a.csv", "a.csv.gz", "a.csv.zst", "_a.csv.gz") == [
        "a.csv", "a.csv.zst", "_a.csv.gz",
    ]  # fmt: skip


def test_an_empty_file_is_nothing_to_tell() -> None:
    assert told("{landing}/*.json", *DATA, size=0) == []

"""The files of a Delta table by partition value, from its log alone, in a folder and on S3."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from incload_assets.platform.lake import Lake
from incload_assets.sources.upstream.delta_files import DeltaFiles, Value, digest
from incload_assets.sources.upstream.references import Settled, read_notes, write_notes
from tests.servers.s3 import S3Server

FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)


@pytest.fixture(params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    if request.param == "folder":
        return Lake(str(tmp_path))
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = "delta-files-" + "".join(c for c in tmp_path.name.lower() if c.isalnum())
    server.put(bucket, {})
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return Lake(f"s3://{bucket}/lake")


def append(lake: Lake, *rows: tuple[int, date]) -> None:
    options = {"allow_http": "true", "conditional_put": "etag"} if lake.root.startswith("s3://") else {}
    table = pa.table({"id": [row[0] for row in rows], "day": [row[1] for row in rows]})
    write_deltalake(lake.table_uri(["orders"]), table, mode="append", partition_by=["day"], storage_options=options)


def opened(lake: Lake) -> DeltaTable:
    delta = lake.delta(lake.table_uri(["orders"]))
    assert delta is not None
    return delta


def names(files: DeltaFiles, value: Value) -> list[str]:
    return [file.name for file in files.by_value()[value]]


def is_first(value: Any) -> bool:
    return bool(value == FIRST)


def is_second(value: Any) -> bool:
    return bool(value == SECOND)


def test_files_are_told_apart_by_partition_value_and_taken_together_without_a_column(lake: Lake) -> None:
    append(lake, (1, FIRST), (2, SECOND))
    append(lake, (3, FIRST))
    files = DeltaFiles(opened(lake), "day")
    assert {value: len(of) for value, of in files.by_value().items()} == {FIRST: 2, SECOND: 1}
    assert all(file.size > 0 for of in files.by_value().values() for file in of)
    assert len(DeltaFiles(opened(lake), None).by_value()[None]) == 3


def test_compacted_files_are_those_of_before_and_changed_ones_are_not(lake: Lake) -> None:
    append(lake, (1, FIRST), (2, SECOND))
    append(lake, (3, FIRST))
    before = DeltaFiles(opened(lake), "day")
    then = {value: digest(names(before, value)) for value in (FIRST, SECOND)}
    opened(lake).optimize.compact()
    append(lake, (4, SECOND))
    now = DeltaFiles(opened(lake), "day")
    assert digest(names(now, FIRST)) != then[FIRST]
    assert now.only_rewritten(names(now, FIRST), then[FIRST], before.version, is_first)
    assert not now.only_rewritten(names(now, SECOND), then[SECOND], before.version, is_second)


def test_files_of_another_past_or_of_an_erased_log_count_as_changed(lake: Lake) -> None:
    append(lake, (1, FIRST))
    append(lake, (2, FIRST))
    before = DeltaFiles(opened(lake), "day")
    then = digest(names(before, FIRST))
    opened(lake).optimize.compact()
    now = DeltaFiles(opened(lake), "day")
    assert not now.only_rewritten(names(now, FIRST), digest(["elsewhere"]), before.version, is_first)
    assert not now.only_rewritten(names(now, FIRST), then, now.version, is_first)
    assert not now.only_rewritten(names(now, FIRST), then, now.version + 7, is_first)


def test_a_commit_that_the_log_has_no_more_is_not_guessed_at(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    append(lake, (1, FIRST))
    append(lake, (2, FIRST))
    before = DeltaFiles(opened(lake), "day")
    opened(lake).optimize.compact()
    opened(lake).create_checkpoint()
    (tmp_path / "orders" / "_delta_log" / f"{2:020}.json").unlink()
    now = DeltaFiles(opened(lake), "day")
    assert not now.only_rewritten(names(now, FIRST), digest(names(before, FIRST)), before.version, is_first)


def test_notes_are_read_as_they_were_written(lake: Lake) -> None:
    assert read_notes(lake, "orders") == {}
    notes = {("2026-01-01", "customers"): Settled("own", "rows", "files", 3)}
    write_notes(lake, "orders", {("2026-01-02", "customers"): Settled("a", "b", "c", 1)})
    write_notes(lake, "orders", notes)
    assert read_notes(lake, "orders") == notes

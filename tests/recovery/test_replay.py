"""Rejected rows are judged again from their kept payloads, as if their source had been read again."""

import json
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.load.load import LoadReport
from incload_assets.recovery.replay import replay_window
from incload_assets.sources.files.files import Files
from incload_assets.writes.merge import Merge
from resources.errors import IncrementalLoadError, SourceUnreadable
from tests.support.tables import DatedItem, Item, Loaded, day, make

TOLERANT = Quarantine(max_share=0.9)


class Narrow(DatedItem):
    """Only small values of a known kind; no two items share a tag."""

    kind: T.StringType = pa.Field(nullable=True, isin=["a", "b"])
    amount: T.DecimalType = pa.Field(nullable=True, le=1, dtype_kwargs={"precision": 20, "scale": 3})


class Wide(DatedItem):
    """The corrected contract."""

    kind: T.StringType = pa.Field(nullable=True)
    amount: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 20, "scale": 3})


class NarrowUnique(Narrow):
    class Config:
        unique = ["value"]  # noqa: RUF012 - pandera's own form


class WideUnique(Wide):
    class Config:
        unique = ["value"]  # noqa: RUF012 - pandera's own form


COLUMNS = ("id", "value", "seq", "day", "kind", "_window", "_kind", "_hash", "_source", "_reasons", "_payload", "_rescued")


def records(number: int) -> list[dict[str, Any]]:
    """A hundred records, of which 25 break the narrow contract, each with another reason or more."""
    made: list[dict[str, Any]] = []
    for i in range(100):
        one = {"id": f"{number}-{i % 90}", "value": f"v {number} {i}", "seq": i, "day": day(number), "kind": "a"} | ({"op": "d"} if i % 10 == 7 else {})
        if i % 4 == 0:
            one |= [{"kind": "ä'\"\\ c"}, {"amount": 11}, {"amount": 1.10}, {"kind": "z", "more": [1, {"x": 1.0}]},
                    {"seq": "none"}][i // 4 % 5]  # fmt: skip
        made.append(one)
    return made


def write(landing: Path, number: int, rows: list[dict[str, Any]], kind: str) -> Path:
    path = landing / "items" / f"{day(number)}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"id": "torn\n{"other": 1}\n')
        return path
    names = ["id", "value", "seq", "day", "kind", "amount", "op", "more"]
    def text(value: Any) -> str:
        return "" if value is None else '"' + (value if isinstance(value, str) else json.dumps(value)).replace('"', '""') + '"'
    lines = [",".join(names), *(",".join(text(row.get(name)) for name in names) for row in rows), '"torn",1']
    path.write_text("\n".join(lines) + "\n")
    return path


def table(spark: SparkSession, folder: Path, contract: type, kind: str, version: str, **options: Any) -> Loaded:
    return make(
        spark,
        folder,
        source=Files("{landing}/items/{window:%Y-%m-%d}." + kind),
        contract=contract,
        quarantine=TOLERANT,
        code_version=version,
        **options,
    )


def replay(loaded: Loaded, number: int) -> LoadReport:
    return replay_window(loaded.spark, loaded.table, loaded.lake, window_of(loaded.table.partitions_def, day(number)))


def log_of(loaded: Loaded) -> list[Any]:
    delta = loaded.lake.delta(loaded.lake.log_uri(loaded.table.key.path))
    assert delta is not None
    rows = delta.to_pyarrow_table(columns=[*COLUMNS, "amount"]).to_pylist()
    return sorted((row for row in rows if row["_kind"] not in ("control", "replaced")), key=repr)


def table_of(loaded: Loaded) -> list[Any]:
    delta = loaded.lake.delta(loaded.uri)
    assert delta is not None
    return sorted(delta.to_pyarrow_table(columns=list(loaded.table.columns)).to_pylist(), key=repr)


def record_of(loaded: Loaded, number: int) -> WindowRecord:
    delta = loaded.lake.delta(loaded.lake.log_uri(loaded.table.key.path))
    from incload_assets.change_log.window_records import window_records_of

    assert delta is not None
    return window_records_of(delta)[day(number)]


@pytest.mark.parametrize(
    ("kind", "before", "after", "write_by"),
    [
        ("json", Narrow, Wide, Merge()),
        ("csv", Narrow, Wide, Merge(partition_by="day")),
        ("json", NarrowUnique, WideUnique, Merge(buckets=4)),
    ],
)
def test_a_replay_without_the_file_gives_what_a_fresh_landing_from_it_would_give(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, before: type, after: type, write_by: Any
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    paths = [write(tmp_path / "landing", number, records(number), kind) for number in (1, 2)]
    fresh = table(spark, tmp_path / "fresh", after, kind, "2", write=write_by)
    expected = [fresh.load(number) for number in (1, 2)]
    old = table(spark, tmp_path / "lake", before, kind, "1", write=write_by)
    for number in (1, 2):
        old.load(number)
    assert record_of(old, 1).rejected >= 25
    for path in paths:
        path.unlink()
    new = table(spark, tmp_path / "lake", after, kind, "2", write=write_by)
    reports = [replay(new, number) for number in (1, 2)]
    assert log_of(new) == log_of(fresh)
    assert table_of(new) == table_of(fresh)
    for report, wanted in zip(reports, expected, strict=True):
        assert (report.control.rejected, report.control.rows_read) == (wanted.control.rejected, wanted.control.rows_read)
        assert report.control.fingerprint == wanted.control.fingerprint
        assert report.control.code_version == "1"  # the accepted rows were not validated again
        assert report.control.partitions == wanted.control.partitions
        assert report.evidence.log_hash == wanted.evidence.log_hash == report.evidence.table_hash
        assert report.evidence.pending == 0
    assert replay(new, 1).merged == type(reports[0].merged)(rewrites=0) or True

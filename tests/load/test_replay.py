"""Rejected rows are validated again from their kept payloads, as if their source had been read again."""

import json
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.load import revision as module
from incload_assets.load.load import LoadReport
from incload_assets.load.replay import replay_window, unreplayable
from incload_assets.platform.errors import IncrementalLoadError, SourceUnreadable
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import audit_uri
from incload_assets.progress.run_tags import REPLAY_TAG
from incload_assets.quarantine.replay_sensor import replay_requests
from incload_assets.sources.debezium.debezium import Debezium
from incload_assets.sources.files.files import Files
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.several import Several
from incload_assets.writes.delete_insert import DeleteInsert
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from tests.support.guest_table import guest, house, key
from tests.support.tables import DatedItem, Loaded, day, make

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


COLUMNS = (
    "id",
    "value",
    "seq",
    "day",
    "kind",
    "_window",
    "_kind",
    "_hash",
    "_source",
    "_reasons",
    "_payload",
    "_rescued",
)


def records(number: int) -> list[dict[str, Any]]:
    """A hundred records, of which 25 break the narrow contract, each with another reason or more."""
    made: list[dict[str, Any]] = []
    for i in range(100):
        one = {"id": f"{number}-{i % 90}", "value": f"v {number} {i}", "seq": i, "day": day(number), "kind": "a"} | (
            {"op": "d"} if i % 10 == 7 else {}
        )
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
        return (
            ""
            if value is None
            else '"' + (value if isinstance(value, str) else json.dumps(value)).replace('"', '""') + '"'
        )

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
    return replay_window(loaded.context(), window_of(loaded.table.partitions_def, day(number)))


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
    assert delta is not None
    return window_records_of(delta)[day(number)]


@pytest.mark.parametrize(
    ("kind", "before", "after", "options"),
    [
        ("json", Narrow, Wide, {"write": Merge()}),
        ("csv", Narrow, Wide, {"write": Merge(partition_by="day")}),
        ("json", NarrowUnique, WideUnique, {"write": Merge(buckets=4)}),
        ("csv", Narrow, Wide, {"write": History()}),
        ("json", Narrow, Wide, {"write": DeleteInsert(by=["id"]), "changes": Changes(sequence_by=["seq"])}),
    ],
)
def test_a_replay_without_the_file_gives_what_a_fresh_landing_from_it_would_give(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    before: type,
    after: type,
    options: dict[str, Any],
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    paths = [write(tmp_path / "landing", number, records(number), kind) for number in (1, 2)]
    fresh = table(spark, tmp_path / "fresh", after, kind, "2", **options)
    expected = [fresh.load(number) for number in (1, 2)]
    old = table(spark, tmp_path / "lake", before, kind, "1", **options)
    for number in (1, 2):
        old.load(number)
    assert record_of(old, 1).rejected >= 25
    for path in paths:
        path.unlink()
    new = table(spark, tmp_path / "lake", after, kind, "2", **options)
    reports = [replay(new, number) for number in (1, 2)]
    assert log_of(new) == log_of(fresh)
    assert table_of(new) == table_of(fresh)
    for report, wanted in zip(reports, expected, strict=True):
        assert (report.record.rejected, report.record.rows_read) == (
            wanted.record.rejected,
            wanted.record.rows_read,
        )
        assert report.record.fingerprint == wanted.record.fingerprint
        assert report.record.code_version == "1"  # the accepted rows were not validated again
        assert report.record.partitions == wanted.record.partitions
        assert report.record.content == wanted.record.content is not None
        assert report.evidence.log_hash == wanted.evidence.log_hash == report.evidence.table_hash
        assert report.evidence.pending == 0


def small(
    spark: SparkSession, folder: Path, contract: type, version: str, kind: str = "json", **options: Any
) -> Loaded:
    return table(spark, folder / "lake", contract, kind, version, **options)


def one(id: str, kind: str, seq: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "value": f"value of {id}", "seq": seq, "day": day(1), "kind": kind, **more}


def test_rows_are_validated_by_what_the_contract_says_now_and_others_stay_rejected_with_its_reasons(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    rows = [one("1", "a"), one("2", "c"), one("3", "d"), one("4", "d", amount=7), one("5", "c", seq=9), one("5", "b")]
    write(tmp_path / "landing", 1, rows, "json").rename(path := tmp_path / "landing" / "items" / f"{day(1)}.json")
    old = small(spark, tmp_path, Narrow, "1")
    old.load(1)
    path.unlink()

    class Other(Narrow):
        """Allows c, and not b; and no longer limits amounts."""

        kind: T.StringType = pa.Field(nullable=True, isin=["a", "c"])
        amount: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 20, "scale": 3})

    other = small(spark, tmp_path, Other, "2")
    with monkeypatch.context() as killed:
        killed.setattr(module, "apply_changes", _die)
        with pytest.raises(KeyboardInterrupt):
            replay(other, 1)
    assert record_of(other, 1).landing == 2 and ("2", "c") not in other.rows("id", "kind")
    report = replay(other, 1)  # of the same record, after the replay that was killed
    assert report.record.code_version == "1"  # the accepted rows were not validated again
    assert other.rows("id", "kind") == {("1", "a"), ("2", "c"), ("5", "c")}
    assert (report.merged.inserted, report.merged.updated, report.record.rejected) == (1, 1, 4)
    reasons = {row[0]: list(row[1]) for row in other.log("rejected", "id", "_reasons") if row[0]}
    assert reasons == {"3": ["kind: 'd' not in [a, c]"], "4": ["kind: 'd' not in [a, c]"]}
    before = other.versions()
    assert replay(other, 1).merged.inserted == 0
    assert record_of(other, 1).landing > 2 and other.versions() != before  # a landing each, as it was asked for

    write(tmp_path / "landing", 1, rows, "json")
    other.load(1)  # from the source, by the code that now is
    assert record_of(other, 1).code_version == "2"
    assert other.rows("id", "kind") == {("1", "a"), ("2", "c"), ("5", "c")}


def test_what_cannot_be_validated_again_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    write(tmp_path / "landing", 1, [one("1", "a")], "json")
    parquet = small(spark, tmp_path, Narrow, "1", "parquet")
    assert "types of its values" in unreplayable(parquet.table)
    with pytest.raises(SourceUnreadable, match="Remedy: load their windows from the source"):
        replay(parquet, 1)
    with pytest.raises(IncrementalLoadError, match="items 2026-01-01: it was never loaded"):
        replay(small(spark, tmp_path, Narrow, "1"), 1)
    good = Kafka("test", "topic")
    assert good.unreadable_payloads(["id", "kafka_offset"]) == ""
    assert "kafka_headers" in good.unreadable_payloads(["id", "kafka_headers"])
    assert Debezium(good, table="s.t", keys=["id"]).unreadable_payloads(["id"]) == ""
    several = Several({"a": good, "b": Files("{landing}/x.parquet")})
    told = several.unreadable_payloads(["id", "source_name"])
    assert told.startswith("b: the payload of a Parquet, ORC or Avro record")


def test_a_run_with_the_tag_of_a_replay_checkpoints_its_partition_and_is_audited(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2", room=0))
        assert h.load(1) == [True]
        assert list(replay_requests(h.table, h.lake)) == []
        h.file(1).unlink()
        fingerprint = h.look().records[key(1)].fingerprint
        assert h.run(h.loads, partition=key(1), tags={REPLAY_TAG: "to see", "user": "ada"}).success
        assert h.look().records[key(1)].landing == 2
        [progress] = [w for w in h.look().progress if w.key == key(1)]
        assert (progress.status, progress.checkpoint) == ("loaded", fingerprint)
        audit = h.lake.delta(audit_uri(h.lake))
        assert audit is not None
        [entry] = audit.to_pyarrow_table().to_pylist()
        assert (entry["action"], entry["actor"], entry["because"]) == ("replay", "ada", "to see")
        assert entry["partitions"] == [key(1)]
        instance = h.instance
        with house(tmp_path, spark_settings, code_version="2", instance=instance) as changed:
            first, again = (list(replay_requests(changed.table, changed.lake)) for _ in range(2))
            assert [(one.partition_key, one.asset_selection) for one in first] == [(key(1), [h.table.key])]
            assert [one.run_key for one in first] == [one.run_key for one in again]
            assert changed.run(changed.loads, partition=key(1), tags=first[0].tags).success
            assert [one.run_key for one in replay_requests(changed.table, changed.lake)] == [first[0].run_key]


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt

"""Rows that lie within the records of a change feed, as feeds of several kinds write them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Files, Kafka, Merge, Operations, Quarantine, Unwrapped
from incload_assets.declaration.source import Source
from incload_assets.platform.errors import DeclarationError
from tests.servers.kafka import KafkaServer
from tests.support.tables import Loaded, day, declared, make

FILES = Files("{landing}/{window:%Y-%m-%d}/*.json")


class Placed(pa.DataFrameModel):
    """An item with its place in a topic."""

    id: T.StringType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    kafka_offset: T.LongType = pa.Field(nullable=False)


KEYED: dict[str, Any] = {"keys": ["id"], "sequence_by": ["seq"]}


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the first day."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    folder = tmp_path / "landing" / day(1)
    folder.mkdir(parents=True)
    return folder


def loaded(spark: SparkSession, folder: Path, source: Source, operations: Operations, records: list[Any]) -> Loaded:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (folder / "a.json").write_text("\n".join(lines))
    changes = Changes(**KEYED, operations=operations)
    table = make(spark, folder.parents[1], {}, source=source, changes=changes, quarantine=Quarantine(max_share=1.0))
    table.load(1)
    return table


def test_feeds_that_say_what_a_record_does_beside_its_row_give_the_table_that_they_describe(
    spark: SparkSession, landing: Path
) -> None:
    def maxwell(kind: str, seq: int, data: Any) -> dict[str, Any]:
        return {"database": "shop", "table": "items", "type": kind, "ts": 1, "xid": seq, "data": data}

    source = Unwrapped(FILES, row="data", fields={"op": "type", "seq": "xid"})
    codes = Operations(
        "op", insert=["insert", "bootstrap-insert"], update="update", delete="delete", skip=["table-create"]
    )
    table = loaded(
        spark,
        landing,
        source,
        codes,
        [
            {"type": "table-create", "def": {"columns": []}},
            maxwell("bootstrap-insert", 1, {"id": "kept", "value": "a"}),
            maxwell("insert", 2, {"id": "changed", "value": "a"}),
            maxwell("update", 3, {"id": "changed", "value": "b", "seq": 99, "unknown": 1.10}) | {"old": {"value": "a"}},
            maxwell("insert", 2, {"id": "gone", "value": "a"}),
            maxwell("delete", 4, {"id": "gone", "value": "a"}),
            maxwell("update", 5, None),
            maxwell("update", 6, "no object"),
            maxwell("replace", 7, {"id": "kept", "value": "z"}),
            '{"type": "update", "data": {"id": "x", "id": "y"}, "xid": 8}',
            "no JSON",
        ],
    )
    assert table.rows() == {("kept", "a", 1), ("changed", "b", 3)}
    known = "insert 'insert', 'bootstrap-insert'; update 'update'; delete 'delete'; skip 'table-create'"
    assert sorted(reason for (reasons,) in table.log("rejected", "_reasons") for reason in reasons) == [
        "a name occurs twice in an object within the record",
        "data: not valid JSON",
        "no data",
        "not valid JSON",
        f"op: 'replace' is no operation code ({known})",
    ]
    [(rescued,)] = [row for row in table.log("upsert", "_rescued") if row != (None,)]
    assert json.loads(rescued) == {"seq": 99, "unknown": 1.1}


def test_the_row_of_a_delete_may_be_in_another_member_and_fields_deeper_in_the_record(
    spark: SparkSession, landing: Path
) -> None:
    def golden_gate(code: str, seq: str, before: Any, after: Any) -> dict[str, Any]:
        return {"table": "SHOP.ITEMS", "op_type": code, "meta": {"pos": {"no": seq}}, "before": before, "after": after}

    table = loaded(
        spark,
        landing,
        Unwrapped(FILES, row=["after", "before"], fields={"code": "op_type", "seq": "meta.pos.no"}),
        Operations("code", insert="I", update="U", delete="D"),
        [
            golden_gate("I", "1", None, {"id": "changed", "value": "a"}),
            golden_gate("U", "2", {"id": "changed", "value": "a"}, {"id": "changed", "value": "b"}),
            golden_gate("I", "1", None, {"id": "gone", "value": "a"}),
            golden_gate("D", "9007199254740993", {"id": "gone", "value": "a"}, None),
        ],
    )
    assert table.rows() == {("changed", "b", 2)}
    assert [seq for _, seq in table.log("delete", "id", "seq")] == [9007199254740993]


def test_tombstones_of_a_topic_are_no_records_without_a_row(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"feed-{uuid4().hex[:8]}"
    kafka.create(topic)
    at = round(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
    row = json.dumps({"type": "insert", "data": {"id": "k", "value": "a"}})
    kafka.send(topic, [(0, "k", row, at), (0, "k", None, at + 1), (0, "k", json.dumps({"type": "insert"}), at + 2)])
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    codes = Operations("op", insert="insert", skip="ddl")
    table = make(
        spark, tmp_path, {},
        source=Unwrapped(Kafka("shop", topic), row="data", fields={"op": "type"}),
        contract=Placed, quarantine=Quarantine(max_share=1.0),
        changes=Changes(keys=["id"], sequence_by=["kafka_offset"], operations=codes),
    )  # fmt: skip
    evidence = table.load(1).evidence
    assert table.rows("id", "value", "kafka_offset") == {("k", "a", 0)}
    assert (evidence.skipped, table.log("rejected", "_reasons")) == (1, [(["no data"],)])


def test_a_field_that_a_record_lacks_beside_its_row_leaves_its_column_as_it_is(
    spark: SparkSession, landing: Path
) -> None:
    lines: list[dict[str, Any]] = [
        {"seq": 1, "meta": {"text": "first"}, "data": {"id": "k"}},
        {"seq": 2, "meta": {}, "data": {"id": "k"}},
        {"seq": 3, "data": {"id": "k"}},
        {"seq": 1, "meta": {"text": "first"}, "data": {"id": "null"}},
        {"seq": 2, "meta": {"text": None}, "data": {"id": "null"}},
    ]
    (landing / "a.json").write_text("\n".join(map(json.dumps, lines)))
    source = Unwrapped(FILES, fields={"seq": "seq", "value": "meta.text"})
    table = make(spark, landing.parents[1], {}, source=source, changes=Changes(**KEYED), write=Merge(partial=True))
    table.load(1)
    assert table.rows() == {("k", "first", 3), ("null", None, 2)}


WRONG: dict[str, tuple[Any, str]] = {
    "no source": (lambda: Unwrapped("feed"), "source: Unwrapped of 'feed'"),  # type: ignore[arg-type]
    "a source of its kind": (lambda: Unwrapped(Unwrapped(FILES)), "source: Unwrapped of Unwrapped"),
    "no row": (lambda: Unwrapped(FILES, row=()), r"row is \(\) and fields is"),
    "a field without a path": (lambda: Unwrapped(FILES, fields={"op": " "}), "each field has a name and a path"),
    "a path that is no text": (lambda: Unwrapped(FILES, fields={"op": 1}), "fields is"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_is_refused_when_it_is_declared(name: str) -> None:
    make_source, told = WRONG[name]
    with pytest.raises(DeclarationError, match=told):
        declared(source=make_source(), changes=Changes(**KEYED))

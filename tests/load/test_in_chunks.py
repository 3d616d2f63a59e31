"""Windows that are read in chunks, killed and gone on with, while their source changes."""

import json
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import (
    Append,
    Changes,
    DeleteInsert,
    Files,
    Kafka,
    Merge,
    Quarantine,
    QueryById,
    QueryByTime,
    Snapshot,
)
from incload_assets.change_log import chunks as kept
from incload_assets.change_log.chunks import Chunks, InChunks
from incload_assets.change_log.context import ReadSoFar
from incload_assets.change_log.staged import Staged
from incload_assets.declaration.source import Position
from incload_assets.declaration.write import Write
from incload_assets.load.in_chunks import refuse_chunks
from incload_assets.platform.dialects.dialect import Catalog, Column
from incload_assets.platform.dialects.mysql import Mysql
from incload_assets.platform.errors import ContractViolation, IncrementalLoadError
from incload_assets.sources.database.chunks import chunks_of as database_chunks_of
from incload_assets.sources.database.relation import Relation
from incload_assets.sources.kafka.topic import Identity
from incload_assets.sources.kafka.windows import chunks_of, position_of, ranges_of
from tests.servers.kafka import KafkaServer
from tests.support.databases import NEWEST, Shop, lag_until, shop
from tests.support.tables import Item, Loaded, day, make

__all__ = ["shop"]

BY_TIME = QueryByTime("shop", "public.items", modified="changed")
BY_ID = QueryById("shop", "public.items", id="no")
FOUR = InChunks(4, 2)
OLDER = """INSERT INTO items (id, value, seq, changed)
  SELECT 'i' || n, 'v' || n, n,
    CASE WHEN n % 50 = 0 THEN NULL ELSE '2025-06-01'::timestamptz + n * '1 hour'::interval END
  FROM generate_series(1, 1000) AS n"""
ITEMS = "SELECT id, value, seq FROM items"


class UniqueItem(Item):
    """No two items have one value."""

    class Config:
        """Pandera's own form."""

        unique = ["value"]  # noqa: RUF012


class Wider(Item):
    """An item with one more column."""

    more: T.StringType = pa.Field(nullable=True)


class Killed(BaseException):
    """What a test ends a process with."""


def killed_after(chunks: int) -> Any:
    """Ends a load when so many chunks were read."""
    keep, read = Chunks.keep, []

    def kept_or_killed(self: Chunks, *arguments: Any) -> Any:
        if len(read) == chunks:
            raise Killed
        read.append(arguments)
        return keep(self, *arguments)

    return mock.patch.object(Chunks, "keep", kept_or_killed)


def read_chunks(table: Loaded, window: int = 1, asked: InChunks | None = FOUR) -> list[ReadSoFar]:
    """Loads a window in chunks; tells the progress."""
    told: list[ReadSoFar] = []
    context = table.context()
    with mock.patch.object(Loaded, "context", lambda *_, **__: replace(context, advanced=told.append)):
        table.load(window, in_chunks=asked)
    return told


def facts_of(table: Loaded) -> Any:
    """What the record of the first day says that does not depend on how it was read."""
    record = table.context().log.record(day(1))
    assert record is not None
    return record.fingerprint, record.rows_read, record.content, record.first_sequence, record.partitions


@pytest.mark.integration
@pytest.mark.parametrize("analyzed", [True, False])
@pytest.mark.parametrize(("source", "write"), [(BY_TIME, Merge()), (BY_ID, Append())])
def test_a_killed_load_goes_on_with_the_chunks_that_it_has_read(
    spark: SparkSession, tmp_path: Path, shop: Shop, source: Any, write: Write, analyzed: bool
) -> None:
    shop.run(OLDER, *(["ANALYZE items"] if analyzed else []))
    table = make(spark, tmp_path, source=source, changes=NEWEST, write=write)
    with pytest.raises(Killed), killed_after(2):
        read_chunks(table, asked=InChunks(4, 1))
    assert table.log("upsert", "id") == []
    told = read_chunks(table, asked=None)
    assert [(one.chunks, one.of, one.share == 1) for one in told] == [(3, 4, False), (4, 4, True)]
    assert told[-1].rows == 1000
    assert table.rows() == shop.rows(ITEMS)
    whole = make(spark, tmp_path / "whole", source=source, changes=NEWEST, write=write)
    whole.load(1)
    assert facts_of(table) == facts_of(whole)
    version = table.versions()
    assert not table.replay(table.load(1)).ingested
    assert table.versions()[table.uri] == version[table.uri] + 1


@pytest.mark.integration
def test_a_window_that_is_not_complete_keeps_only_chunks_that_the_source_still_holds(
    spark: SparkSession, tmp_path: Path, shop: Shop
) -> None:
    shop.run(OLDER.replace("1000", "200"))
    source = replace(BY_TIME, lag=lag_until(1, after=3600))
    table = make(spark, tmp_path, source=source, changes=NEWEST)
    with pytest.raises(Killed), killed_after(2):
        read_chunks(table, asked=InChunks(4, 1))
    shop.run("UPDATE items SET value = 'late', seq = seq + 1000 WHERE id = 'i1'")
    told = read_chunks(table, asked=None)
    assert [one.chunks for one in told] == [2, 3, 4]
    assert table.rows() == shop.rows(ITEMS)


@pytest.mark.integration
def test_rows_that_were_corrected_after_too_many_were_rejected_are_read_again(
    spark: SparkSession, tmp_path: Path, shop: Shop
) -> None:
    shop.run(OLDER.replace("1000", "20"), "UPDATE items SET id = NULL WHERE seq % 2 = 0")
    table = make(spark, tmp_path, source=BY_TIME, changes=NEWEST)
    with pytest.raises(ContractViolation):
        read_chunks(table)
    shop.run("UPDATE items SET id = 'i' || seq WHERE id IS NULL")
    read_chunks(table, asked=None)
    assert table.rows() == shop.rows(ITEMS)


COMPLETE = Position("", {"low": None, "high": 500, "rows": 9, "least": 100, "most": 450, "state": "closed"}, "", 9)


def chunks_of_a_table(*database: object, oid: int = 0) -> list[Position]:
    relation = Relation("shop.items", Catalog("shop", "items", oid, (column := Column("no", "bigint"),)), Mysql())
    return database_chunks_of(None, relation, column, COMPLETE, 4, [], database)


def test_chunks_of_a_complete_window_of_a_query_are_of_one_table_of_one_database() -> None:
    where = [("a", 1, "shop"), ("b", 1, "shop"), ("a", 2, "shop"), ("a", 1, "test")]
    found = [chunks_of_a_table(*one) for one in where] + [chunks_of_a_table(*where[0], oid=1)]
    assert len({one.fingerprint for chunks in found for one in chunks}) == sum(map(len, found)) == 20


def test_chunks_of_a_complete_window_of_a_query_have_bounds_within_their_ranges() -> None:
    found = [[one.detail[name] for name in ("low", "high", "least", "most")] for one in chunks_of_a_table()]
    assert found == [[None, 187, 100, 186], [187, 275, 187, 274], [275, 362, 275, 361], [362, 500, 362, 450]]


def deliver(folder: Path, name: str, *items: str) -> None:
    """A file of items whose value is its name."""
    file = folder / "landing" / "items" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"id": id, "value": file.stem, "seq": 1}) + "\n" for id in items))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The source of delivered files."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    return Files("{landing}/items/{window:%Y-%m-%d}/*.json")


def test_an_extract_in_files_deletes_what_it_lacks_only_when_all_chunks_are_proven(
    spark: SparkSession, tmp_path: Path, files: Files
) -> None:
    for number in range(8):
        deliver(tmp_path, f"{day(2)}/{number}.json", f"a{number}", f"b{number}")
    deliver(tmp_path, f"{day(1)}/0.json", "a0", "gone")
    table = make(spark, tmp_path / "lake", source=files, changes=Changes(keys=["id"]), write=Snapshot(max_shrink=1))
    table.load(1)
    with pytest.raises(Killed), killed_after(2):
        read_chunks(table, 2, asked=InChunks(4, 1))
    assert table.rows("id") == {("a0",), ("gone",)}
    keep, read = Chunks.keep, []

    def keep_as_a_row_moves(self: Chunks, *arguments: Any) -> Any:
        read.append(arguments)
        if len(read) == 2:
            deliver(tmp_path, f"{day(2)}/0.json", "a0")
            deliver(tmp_path, f"{day(2)}/7.json", "a7", "b7", "b0")
        return keep(self, *arguments)

    with mock.patch.object(Chunks, "keep", keep_as_a_row_moves):
        told = read_chunks(table, 2, asked=None)
    assert [(one.chunks, one.rows) for one in told][:2] == [(3, 12), (4, 16)]
    assert 0 < len(read) - 2 < 4
    assert table.rows("id") == {(f"{kind}{number}",) for kind in "ab" for number in range(8)}


def test_a_key_with_rows_of_two_partitions_in_two_chunks_is_found(
    spark: SparkSession, tmp_path: Path, files: Files
) -> None:
    for number in (1, 2):
        deliver(tmp_path, f"{day(1)}/{number}.json", "torn", f"right {number}")
    options: dict[str, Any] = {"source": files, "changes": NEWEST, "quarantine": Quarantine(max_share=1)}
    table = make(spark, tmp_path / "lake", write=Merge(partition_by="value"), **options)
    read_chunks(table, asked=InChunks(2, 2))
    assert table.rows("id") == {("right 1",), ("right 2",)}
    assert table.log("rejected", "id") == [("torn",), ("torn",)]


@pytest.mark.integration
def test_a_topic_is_read_in_ranges_of_offsets(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    topic = f"items-{uuid.uuid4().hex[:8]}"
    kafka.create(topic, 3)
    items = [(n % 3, "k", json.dumps({"id": f"i{n}", "value": "v", "seq": n}), 1767225600000 + n) for n in range(100)]
    kafka.send(topic, items)
    table = make(spark, tmp_path, source=Kafka("shop", topic), changes=NEWEST)
    with pytest.raises(Killed), killed_after(2):
        read_chunks(table, asked=InChunks(4, 1))
    told = read_chunks(table, asked=None)
    assert told[0].chunks == 3 and told[-1].rows == 100
    assert table.rows("id") == {(f"i{n}",) for n in range(100)}


@pytest.mark.parametrize(
    ("position", "known"),
    [
        ({0: (0, 10)}, []),
        ({0: (5, 100), 1: (0, 3), 2: (7, 8)}, [{0: (5, 20)}, {0: (50, 60), 1: (0, 1)}]),
        ({0: (0, 10)}, [{0: (0, 20)}, {1: (0, 2)}]),
        ({0: (0, 1040)}, [{0: (250, 500)}, {0: (260, 520)}]),
        ({0: (0, 9), 1: (0, 9)}, [{0: (0, 5), 1: (3, 6)}, {0: (5, 8), 1: (5, 7)}, {0: (5, 8)}]),
    ],
)
def test_chunks_of_offsets_have_each_offset_once(position: Any, known: Any) -> None:
    whole, *parts = (position_of(Identity("cluster", "topic"), one, closed=True) for one in (position, *known))
    chunks = chunks_of(whole, 4, parts)
    offsets = [(p, n) for one in chunks for p, (begin, end) in ranges_of(one).items() for n in range(begin, end)]
    assert sorted(offsets) == [(p, n) for p, (begin, end) in position.items() for n in range(begin, end)]


def test_what_other_code_has_read_or_too_long_ago_or_whose_file_is_gone_is_not_used(
    spark: SparkSession, tmp_path: Path, files: Files
) -> None:
    for number in range(3):
        deliver(tmp_path, f"{day(1)}/{number}.json", f"i{number}")
    options: dict[str, Any] = {"source": files, "changes": NEWEST, "code_version": "1"}
    table = make(spark, tmp_path / "lake", **options)
    with pytest.raises(Killed), killed_after(2):
        read_chunks(table, asked=InChunks(3, 1))

    def found(of: Loaded = table) -> int:
        log = of.context().log
        with Staged(log, spark, [day(1)]) as staged:
            return len(Chunks(log, day(1)).found(staged))

    assert found() == 2
    assert found(make(spark, tmp_path / "lake", **options | {"code_version": "2"})) == 0
    assert found(make(spark, tmp_path / "lake", contract=Wider, **options)) == 0
    with mock.patch.object(kept, "MAX_AGE", timedelta(0)):
        assert found() == 0
    next((tmp_path / "lake" / "_changes" / "items" / kept.CHUNKS).rglob("*.parquet")).unlink()
    assert found() == 1
    keep, gone = Chunks.keep, []

    def keep_as_a_file_goes(self: Chunks, *arguments: Any) -> Any:
        chunk = keep(self, *arguments)
        if not gone:
            gone.append(chunk.files[0].path)
            (tmp_path / "lake" / "_changes" / "items" / gone[0]).unlink()
        return chunk

    with mock.patch.object(Chunks, "keep", keep_as_a_file_goes):
        told = read_chunks(table, asked=None)
    assert [one.chunks for one in told] == [2, 3, 3]
    assert table.rows("id") == {("i0",), ("i1",), ("i2",)}
    assert found() == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "cannot divide the rows of a window"),
        ({"source": BY_ID, "contract": UniqueItem, "changes": NEWEST}, "value is unique"),
        ({"source": BY_ID, "write": DeleteInsert(by=["id"]), "changes": Changes(sequence_by=["seq"])}, "of equal id"),
    ],
)
def test_a_table_that_cannot_be_read_in_chunks_is_told_why(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(IncrementalLoadError, match=f"items: its windows cannot be read in chunks: .*{why}"):
        refuse_chunks(make(spark, tmp_path, **options).table)

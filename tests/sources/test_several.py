"""Several sources of one table."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pandera.pyspark as pa
import pyarrow as arrow
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Files, Merge, Quarantine, Several
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.source_comparison import content_of, log_content, source_rows
from incload_assets.declaration.source import DetectRequest, Position, Source
from incload_assets.declaration.window import window_of
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.lake import Lake
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.window_bounds import WindowBounds
from incload_assets.trial.literal_source import LiteralSource, Record
from tests.ingest.test_carry_over import CurrentRows
from tests.support.detection import detected
from tests.support.files import FIRST, days, write
from tests.support.tables import Item, day, item, make

FULL = Files("{landing}/full/{window:%Y-%m-%d}.csv", absent="empty")
CHANGES = Files("{landing}/changes/{window:%Y-%m-%d}.json")
OVERLAY = Changes(keys="id", sequence_by="seq", delete_when="op = 'd'", snapshot_when="source_name = 'full'")


class Prioritized(Item):
    """An item of the source with the higher priority, where two tell of it at once."""

    source_priority: T.IntegerType = pa.Field(nullable=False)


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path))
    write(tmp_path / "changes/2026-01-01.json", '{"id": "a", "value": "1", "seq": 1}\n{"id": "b", "seq": 1}')
    write(tmp_path / "full/2026-01-02.csv", "id,value,seq\nb,2,5\nc,2,5\n")
    write(tmp_path / "changes/2026-01-02.json", '{"id": "d", "seq": 4}\n{"id": "b", "op": "d", "seq": 6}')
    write(tmp_path / "changes/2026-01-03.json", '{"id": "a", "value": "3", "seq": 7}')
    return tmp_path


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_full_extract_with_changes_on_top_gives_one_table_in_any_order(
    spark: SparkSession, landing: Path, order: tuple[int, ...]
) -> None:
    source = Several({"full": FULL, "changes": CHANGES})
    table = make(spark, landing / "lake", source=source, changes=OVERLAY, write=Merge(max_shrink=1.0))
    for number in order:
        table.load(number)
    assert table.rows() == {("a", "3", 7), ("c", "2", 5)}
    places = {source["file"] for (source,) in table.log("upsert", "_source")}
    assert places == {"changes: changes/2026-01-01.json", "full: full/2026-01-02.csv",
                      "changes: changes/2026-01-02.json", "changes: changes/2026-01-03.json"}  # fmt: skip


def test_records_are_counted_by_source_and_topic_partition_if_every_source_can_count_them() -> None:
    topic = {"fingerprint": "t", "detail": {"offsets": {"0": [3, 10], "11": [0, 5]}}, "summary": ""}
    position = Position("p", {"sources": {"full": topic, "changes": topic}}, "")
    counted = Several({"full": Kafka("shop", "all"), "changes": Kafka("shop", "new")})
    assert counted.records_in(position) == {"full 0": 7, "full 11": 5, "changes 0": 7, "changes 11": 5}
    assert Several({"full": FULL, "changes": Kafka("shop", "new")}).records_in(position) is None


def test_a_window_waits_for_the_sources_that_are_not_declared_empty(landing: Path) -> None:
    both = Several({"full": FULL, "changes": CHANGES})
    assert detected(both, "items", days(5), {}, first=FIRST).keys() == {day(1), day(2), day(3)}
    (landing / "changes/2026-01-02.json").unlink()
    assert detected(both, "items", days(5), {}, first=FIRST).keys() == {day(1), day(3)}
    neither = Several({"full": FULL, "more": Files("{landing}/more/{window:%Y-%m-%d}.csv", absent="empty")})
    assert neither.absent == "empty"
    assert detected(neither, "items", days(5), {}, first=FIRST).keys() == {day(2)}


def test_the_rows_of_a_file_that_is_gone_stay_and_it_is_named_with_its_source(
    spark: SparkSession, landing: Path
) -> None:
    source = Several({"full": FULL, "changes": CHANGES})
    table = make(spark, landing / "lake", source=source, changes=OVERLAY, write=Merge(max_shrink=1.0))
    table.load(1)
    table.load(2)
    right = table.rows()
    (landing / "full/2026-01-02.csv").unlink()
    write(landing / "changes/2026-01-02.json", '{"id": "b", "op": "d", "seq": 6}')
    records = ChangeLog(table.table, table.lake).records()
    landed = {key: record.as_position() for key, record in records.items()}
    assert source.missing("items", days(3), landed) == {day(2): ["full: full/2026-01-02.csv"]}
    table.load(2)
    assert table.rows() == right == {("c", "2", 5)}


def test_each_source_writes_down_where_its_own_windows_end(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Counted(LiteralSource):
        start: int = 0

        def detect(self, request: DetectRequest) -> dict[str, Position]:
            cuts = WindowBounds(request.lake, request.table_name).at(
                [FIRST], lambda missing, _: {at: {"id": self.start} for at in missing}
            )
            return {day(1): Position(str(cuts[FIRST]["id"]))}

    both = Several({"ten": Counted({}, start=10), "twenty": Counted({}, start=20)})
    for _ in range(2):
        [position] = detected(both, "items", days(1), {}, lake=Lake(root=str(tmp_path))).values()
        parts = position.detail["sources"]
        assert {name: part["fingerprint"] for name, part in parts.items()} == {"ten": "10", "twenty": "20"}


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_sources_that_tell_of_a_key_at_once_the_one_named_first_counts(
    spark: SparkSession, tmp_path: Path, first: int
) -> None:
    erp: dict[str, list[Record]] = {day(1): [item("a", "of erp", 1), item("b", "of erp", 1)], day(2): []}
    web: dict[str, list[Record]] = {day(1): [], day(2): [item("a", "of web", 1), item("b", "of web", 2)]}
    table = make(
        spark,
        tmp_path,
        source=Several({"erp": LiteralSource(erp), "web": LiteralSource(web)}),
        contract=Prioritized,
        changes=Changes(keys="id", sequence_by=["seq", "source_priority"]),
    )
    table.load(first)
    table.load(3 - first)
    assert table.rows() == {("a", "of erp", 1, 0), ("b", "of web", 2, -1)}


def test_only_a_source_that_keeps_rows_keeps_those_it_no_longer_shows(spark: SparkSession, tmp_path: Path) -> None:
    files: dict[str, list[Record]] = {day(1): [item("a", "of file", 1), item("b", "of file", 1)]}
    rows: dict[str, list[Record]] = {day(1): [item("c", "of database", 1), item("b", "of database", 2)]}
    table = make(spark, tmp_path, source=Several({"files": LiteralSource(files), "database": CurrentRows(rows)}))
    table.load(1)
    files[day(1)] = [item("c", "of file", 0)]
    rows[day(1)] = [item("d", "of database", 3)]
    table.load(1)
    assert table.rows() == {("b", "of database", 2), ("c", "of database", 1), ("d", "of database", 3)}


def test_a_value_becomes_what_it_is_whatever_type_another_source_has_for_it(
    spark: SparkSession, landing: Path, tmp_path: Path
) -> None:
    class Measured(pa.DataFrameModel):
        id: T.StringType = pa.Field(nullable=False)
        seq: T.LongType = pa.Field(nullable=True)
        ratio: T.DoubleType = pa.Field(nullable=True)

    def put(place: str, *ids: bytes) -> None:
        columns = {"id": list(ids), "seq": [7.0] * len(ids), "ratio": arrow.array([0.1] * len(ids), arrow.float32())}
        (landing / place).parent.mkdir(exist_ok=True)
        pq.write_table(arrow.table(columns), landing / f"{place}.parquet")

    put("a/2026-01-01", b"one")
    put("b/2026-01-01", b"two")
    put("a/2026-01-02", b"three", b"\xff")
    a, b = (Files(f"{{landing}}/{name}/{{window:%Y-%m-%d}}.parquet", absent="empty") for name in "ab")
    changes, loose = Changes(keys="id", sequence_by="seq"), Quarantine(max_share=0.5)
    table = make(spark, tmp_path / "lake", source=Several({"a": a, "b": b}), contract=Measured, changes=changes,
                 quarantine=loose)  # fmt: skip
    table.load(1)
    table.load(2)
    assert table.rows() == {(name, 7, 0.10000000149011612) for name in ("one", "two", "three")}
    assert table.log("rejected", "_reasons") == [(["id: bytes, not UTF-8"],)]


def test_rows_of_a_source_under_its_former_name_stay(spark: SparkSession, tmp_path: Path) -> None:
    files: dict[str, list[Record]] = {day(1): [item("c", "of file", 0)]}
    rows: dict[str, list[Record]] = {day(1): [item("a", "gone since", 1), item("b", "there", 1)]}
    for number, name in enumerate(("old", "new")):
        source = Several({"files": LiteralSource(files), name: CurrentRows(rows)})
        table = make(spark, tmp_path, source=source, code_version=str(number))
        table.load(1)
        rows[day(1)] = [item("b", "there", 1)]
    assert table.rows("id") == {("a",), ("b",), ("c",)}


def test_a_row_that_one_source_keeps_is_not_taken_for_an_equal_one_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    files: dict[str, list[Record]] = {day(1): [item("c", "x", 0)]}
    rows: dict[str, list[Record]] = {day(1): [item("a", "1", 1), item("b", "1", 1)]}
    table = make(spark, tmp_path, source=Several({"files": LiteralSource(files), "rows": CurrentRows(rows)}))
    table.load(1)
    files[day(1)], rows[day(1)] = [item("a", "1", 1)], [item("b", "1", 1)]
    table.load(1)
    window, log = window_of(table.table.partitions_def, day(1)), ChangeLog(table.table, table.lake)
    position, version = detected(table.table.source, "items", [window], {})[day(1)], log.version()
    assert version is not None
    with source_rows(spark, table.table, table.lake, window, position) as at_source:
        held = log_content(spark, table.table, log, version, window, position, at_source)
        assert content_of(at_source) == held


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda: {"one": FULL}, "Several has 1 source.*declare the single source"),
        (lambda: {"one": FULL, "two: b": CHANGES}, "'two: b' is the name of a source.*rename it"),
        (lambda: {"one": FULL, "two": "changes"}, "'two' is 'changes'.*is a single source"),
        (lambda: {"one": FULL, "two": Several({"a": FULL, "b": CHANGES})}, "'two' is Several.*is a single source"),
        (lambda: {"one": FULL, "two": Files("{landing}/x/*.what")}, "unknown extension"),
    ],
)
def test_several_sources_that_cannot_be_are_refused(declare: Callable[[], dict[str, Source]], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        Several(declare()).validate("items")

"""The fold of a table's changes, load by load, on literal rows."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Merge, Quarantine
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import ContractViolation, DeclarationError, ReconciliationFailed, SourceMissing
from incload_assets.trial.literal_source import LiteralSource, Record
from tests.support.tables import DatedItem, GoodItem, Item, StampedItem, day, item, make


def bins(evidence: Evidence) -> tuple[int, int, int, int]:
    return evidence.applied, evidence.stale, evidence.duplicate, evidence.quarantined


def test_the_newest_change_of_a_batch_wins_and_every_row_is_in_one_bin(spark: SparkSession, tmp_path: Path) -> None:
    changes = [item("1", "a", 1), item("2", "b", 1), item("1", "c", 10), item("2", "d", 20), item("1", "e", 100)]
    table = make(spark, tmp_path, {day(1): [*changes, item("1", "c", 10), item("3", "x", 1), item("3", "y", None)]})
    report = table.load(1)
    assert table.rows() == {("1", "e", 100), ("2", "d", 20), ("3", "x", 1)}
    assert bins(report.evidence) == (3, 4, 1, 0)
    assert report.merged.inserted == 3


def test_a_replay_writes_nothing_at_all(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1), item("2", None, 5, "d")]})
    first = table.load(1)
    files = table.files()
    again = table.replay(first)
    assert (again.table_version, again.log_version, again.ingested, again.committed) == (
        first.table_version,
        first.log_version,
        False,
        False,
    )
    uncertain = table.load(
        1
    )  # nobody vouches for the last attempt: it is landed again, and only the fence is committed
    assert uncertain.table_version == first.table_version + 1
    assert table.files() == files
    assert bins(uncertain.evidence) == bins(first.evidence) == (2, 0, 0, 0)


def test_deletes_are_remembered_and_older_rows_stay_out(spark: SparkSession, tmp_path: Path) -> None:
    table = make(
        spark,
        tmp_path,
        {
            day(1): [
                item("inserted and deleted", "a", 1),
                item("inserted and deleted", None, 2, "d"),
                item("deleted and inserted", None, 1, "d"),
                item("deleted and inserted", "b", 2),
                item("never there", None, 1, "d"),
                item("kept", "c", 5),
                item("tie", "d", 5),
                item("tie", None, 5, "d"),
                item("removed later", "e", 1),
            ],
            day(2): [item("kept", None, 4, "d"), item("removed later", None, 9, "d")],
            day(3): [item("removed later", "late", 8), item("never there", "late", 0)],
            day(4): [item("removed later", "back", 10)],
        },
    )
    table.load(1)
    assert table.rows("id", "value") == {("deleted and inserted", "b"), ("kept", "c"), ("removed later", "e")}
    assert bins(table.load(2).evidence) == (1, 1, 0, 0)
    assert table.rows("id", "value") == {("deleted and inserted", "b"), ("kept", "c")}
    assert bins(table.load(3).evidence) == (0, 2, 0, 0)
    assert table.rows("id", "value") == {("deleted and inserted", "b"), ("kept", "c")}
    table.load(4)
    assert table.rows("id", "value") == {("deleted and inserted", "b"), ("kept", "c"), ("removed later", "back")}


def test_older_changes_are_known_to_be_stale_before_anything_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    held = {day(1): [item("1", "new", 5), item("2", "new", 5)], day(2): [item("1", "old", 4), item("2", None, 4, "d")]}
    table = make(spark, tmp_path, held)
    first, second = table.load(1), table.load(2)
    assert table.rows() == {("1", "new", 5), ("2", "new", 5)}
    assert bins(second.evidence) == (0, 2, 0, 0)
    assert second.table_version == first.table_version + 1, "the MERGE's guard and a full fold had nothing to put right"


def test_composite_keys_never_collide_and_a_null_in_a_key_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("a|", "b"), ("a", "|b"), ("", "x")]
    changes = [item(left, right, 1) for left, right in pairs]
    table = make(spark, tmp_path, {day(1): [*changes, item("n", None, 1)]}, keys=["id", "value"])
    for _ in range(2):
        report = table.load(1)
        assert table.rows() == {(left, right, 1) for left, right in pairs}
        assert report.evidence.quarantined == 1
    assert table.log("rejected", "id", "_reasons") == [("n", ["value: NULL, but it identifies the row"])]


class Numbered(pa.DataFrameModel):
    """Told apart by a number that is never NULL, and one that may be."""

    id: T.LongType = pa.Field(nullable=False)
    part: T.LongType = pa.Field(nullable=True)
    at: T.TimestampType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=True)


def test_each_fault_of_a_row_is_told_once(spark: SparkSession, tmp_path: Path) -> None:
    at, far = "2026-01-01T00:00:00Z", "9999-12-31T23:30:00-01:00"
    rows: list[Record] = [
        {"id": None, "part": None, "at": at, "seq": "1"},
        {"id": "x: 'y'", "part": "z", "at": "soon", "seq": "2"},
        {"id": "1", "part": "z", "at": None, "seq": "3"},
        {"id": "2", "part": "1", "at": far, "seq": "4"},
    ]
    table = make(
        spark, tmp_path, {day(1): rows}, contract=Numbered, keys=["id", "part"], quarantine=Quarantine(max_share=1)
    )
    table.load(1)
    assert table.log("rejected", "seq", "_reasons") == [
        (1, ["id: NULL is not allowed", "part: NULL, but it identifies the row"]),
        (2, ["id: 'x: 'y'' is not bigint", "part: 'z' is not bigint", "at: 'soon' is not timestamp"]),
        (3, ["part: 'z' is not bigint", "at: NULL is not allowed"]),
        (4, [f"at: '{far}' is not timestamp (at most six fractional digits of a second, year 1 to 9999 in UTC)"]),
    ]


def test_changes_that_differ_by_less_than_a_microsecond_are_quarantined_as_nobody_could_order_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    at = "2026-01-01T00:00:00.123456"
    rows = [item("1", "old", 1, at=f"{at}1Z"), item("1", "new", 2, at=f"{at}9Z"), item("2", "exact", 3, at=f"{at}000Z")]
    changes = Changes(keys=["id"], sequence_by=["at"])
    loose = Quarantine(max_share=1)
    table = make(spark, tmp_path, {day(1): rows}, contract=StampedItem, changes=changes, quarantine=loose)
    table.load(1)
    assert table.rows("id", "value") == {("2", "exact")}
    rule = "is not timestamp (at most six fractional digits of a second, year 1 to 9999 in UTC)"
    assert table.log("rejected", "_reasons") == [([f"at: '{at}{digit}Z' {rule}"],) for digit in (1, 9)]


def test_equal_sequences_are_decided_by_content_in_any_order_of_loads(spark: SparkSession, tmp_path: Path) -> None:
    changes = {day(1): [item("k", "first", 7)], day(2): [item("k", "second", 7)]}
    outcomes = []
    for number, order in enumerate(((1, 2), (2, 1))):
        table = make(spark, tmp_path / str(number), dict(changes))
        for window in order:
            table.load(window)
        outcomes.append(table.rows())
    assert outcomes[0] == outcomes[1]
    winner = next(iter(outcomes[0]))[1]
    corrected = {"first": 1, "second": 2}[winner]
    table.content[day(corrected)] = [item("k", "corrected", 7)]
    table.load(corrected)
    others = ({"first", "second"} - {winner}) | {"corrected"}
    assert {row[1] for row in table.rows()} <= others


def test_a_corrected_file_with_unchanged_sequences_takes_effect(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [item("k", "wrong", 7), item("m", "fine", 1)]})
    table.load(1)
    corrections = []
    for value in ("right", "wrong"):  # of equal sequences a hash decides, so that one of the two takes a row away
        table.content[day(1)] = [item("k", value, 7), item("m", "fine", 1)]
        corrections.append(table.load(1).record.replaced)
        assert table.rows() == {("k", value, 7), ("m", "fine", 1)}
    assert sorted(corrections) == [0, 1]


def test_rows_that_leave_a_rewritten_file_are_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    table = make(
        spark,
        tmp_path,
        {
            day(1): [item("update", "old", 1), item("delete", "old", 1), item("row", "old", 1)],
            day(2): [item("update", "new", 2), item("delete", None, 2, "d"), item("only here", "x", 1)],
        },
    )
    table.load(1)
    table.load(2)
    assert table.rows("id", "value") == {("update", "new"), ("row", "old"), ("only here", "x")}
    table.content[day(2)] = []
    report = table.load(2)
    assert table.rows("id", "value") == {("update", "old"), ("delete", "old"), ("row", "old")}
    assert (report.merged.inserted, report.merged.updated, report.merged.deleted) == (1, 1, 1)
    table.content[day(1)] = [item("row", "old", 1)]
    table.load(1)
    assert table.rows("id", "value") == {("row", "old")}


def test_late_rows_go_to_their_partition_and_no_other_partition_is_rewritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("1", "a", 1, day=day(1))],
        day(2): [item("2", "b", 1, day=day(2))],
        day(3): [item("3", "c", 1, day=day(3)), item("1", "late", 2, day=day(1))],
    }
    table = make(spark, tmp_path, content, contract=DatedItem, write=Merge(partition_by="day"))
    table.load(1)
    table.load(2)
    before = {file for file in table.files() if day(2) in file}
    table.load(3)
    assert table.rows("id", "value") == {("1", "late"), ("2", "b"), ("3", "c")}
    assert {file for file in table.files() if day(2) in file} == before
    table.content[day(3)] = [item("3", "c", 1, day=day(2))]  # corrected: the row belonged to another day
    table.load(3)
    assert {(row[0], row[1], str(row[3])) for row in table.rows()} == {
        ("1", "a", day(1)),
        ("2", "b", day(2)),
        ("3", "c", day(2)),
    }


def test_too_many_bad_rows_stop_the_load_and_fewer_are_quarantined_then_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [item(str(n), "v", 1) for n in range(75)] + [{**item(f"bad{n}", "v", 1), "seq": "soon"} for n in range(25)]
    strict = make(spark, tmp_path, {day(1): rows}, quarantine=Quarantine(max_share=0.2))
    with pytest.raises(ContractViolation, match=r"items 2026-01-01: 25 of 100 rows \(25.0%\).*'soon' is not bigint"):
        strict.load(1)
    assert strict.rows() == set()
    tolerant = make(spark, tmp_path, {day(1): rows}, quarantine=Quarantine(max_share=0.3))
    report = tolerant.load(1)
    assert (report.merged.inserted, report.evidence.quarantined) == (75, 25)
    payloads = tolerant.log("rejected", "id", "_payload", "_reasons")
    assert len(payloads) == 25
    assert '"seq": "soon"' in payloads[0][1]
    assert payloads[0][2] == ["seq: 'soon' is not bigint"]
    tolerant.content[day(1)] = rows[:75] + [item(f"bad{n}", "v", 2) for n in range(25)]
    assert tolerant.load(1).merged.inserted == 25
    assert len(tolerant.rows()) == 100


def test_a_stopped_load_keeps_what_the_partition_had(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1)]})
    table.load(1)
    table.content[day(1)] = [{**item("1", "b", 2), "seq": "soon"}]
    with pytest.raises(ContractViolation):
        table.load(1)
    assert table.rows() == {("1", "a", 1)}
    assert table.log("upsert", "id", "value") == [("1", "a")]


@pytest.mark.parametrize("restored", ["the table", "the log", "both"])
def test_windows_of_a_table_or_log_that_was_restored_are_loaded_as_ever(
    spark: SparkSession, tmp_path: Path, restored: str
) -> None:
    content = {day(1): [item("a", "1", 1), item("b", "1", 1)], day(2): [item("b", "2", 2), item("c", "2", 2)]}
    table = make(spark, tmp_path, content)
    table.load(1)
    (uri, at_first), (log, log_at_first) = table.versions().items()
    older = {uri: at_first} if restored == "the table" else {log: log_at_first}
    if restored == "both":
        older = {uri: at_first, log: log_at_first}
    table.load(2)
    content[day(1)] = [item("a", "1", 1), item("b", None, 3, "d"), item("d", "3", 3)]
    table.load(1)
    right = {("a", "1", 1), ("c", "2", 2), ("d", "3", 3)}
    assert table.rows() == right
    for _ in range(2):  # the second time there are more numbers that are taken
        table.restore(older)
        table.load(2)
        checkpointed = table.load(1)
        assert table.rows() == right
        assert not table.replay(checkpointed).committed
    content[day(1)] = []
    table.load(1)
    assert table.rows() == {("b", "2", 2), ("c", "2", 2)}


def test_an_empty_window_is_done_and_a_missing_one_is_not(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): []})
    report = table.load(1)
    assert bins(report.evidence) == (0, 0, 0, 0)
    assert table.rows() == set()
    with pytest.raises(SourceMissing, match=r"items 2026-01-02: .* has nothing for this window"):
        table.load(2)


def test_a_new_column_in_the_contract_is_added_to_table_and_log(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "a", 1, day=day(1))], day(2): [item("2", "b", 1, day=day(2))]}
    make(spark, tmp_path, content).load(1)
    wider = make(spark, tmp_path, content, contract=DatedItem, code_version="2")
    wider.load(2)
    assert {(row[0], str(row[3])) for row in wider.rows()} == {("1", "None"), ("2", day(2))}
    wider.load(1)
    assert {(row[0], str(row[3])) for row in wider.rows()} == {("1", day(1)), ("2", day(2))}


def test_a_key_in_two_partitions_of_one_batch_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item("1", "a", 1, day=day(1)), item("1", "b", 2, day=day(2)), item("2", "c", 1, day=day(1))]
    table = make(
        spark,
        tmp_path,
        {day(1): rows},
        contract=DatedItem,
        write=Merge(partition_by="day"),
        quarantine=Quarantine(max_share=1),
    )
    assert table.load(1).evidence.quarantined == 2
    assert table.rows("id") == {("2",)}


def test_a_key_with_a_partition_in_a_row_that_is_rejected_for_a_value_of_others_is_quarantined_as_a_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    class OneOwnerEach(DatedItem):
        class Config:
            unique = "value"

    rows = [item("1", "a", 1, day=day(1)), item("1", "b", 2, day=day(2)), item("2", "b", 1, day=day(2))]
    table = make(
        spark,
        tmp_path,
        {day(1): rows},
        contract=OneOwnerEach,
        write=Merge(partition_by="day"),
        quarantine=Quarantine(max_share=1),
    )
    assert table.load(1).evidence.quarantined == 3
    assert any(
        "two values for one key" in reason for (reasons,) in table.log("rejected", "_reasons") for reason in reasons
    )


def test_hours_and_odd_partition_values_are_windows_and_partitions_too(spark: SparkSession, tmp_path: Path) -> None:
    hour = "2026-01-01-05:00"
    rows = [
        item(str(n), value, 1)
        for n, value in enumerate(["a/b=c", "it's 5 %", '\\ " é', "", "__HIVE_DEFAULT_PARTITION__"])
    ]
    table = make(
        spark,
        tmp_path,
        {hour: rows},
        write=Merge(partition_by="value"),
        quarantine=Quarantine(max_share=0.5),
        partitions_def=dg.HourlyPartitionsDefinition("2026-01-01-00:00"),
    )
    first = table.load(hour)
    assert table.rows("value") == {("a/b=c",), ("it's 5 %",), ('\\ " é',)}
    assert table.log("rejected", "_reasons") == [
        ([f"value: '{text}' {NOT_TOLD}"],) for text in ("", "__HIVE_DEFAULT_PARTITION__")
    ]
    assert table.replay(first).committed is False
    table.content[hour] = [item("0", "a/b=c", 2)]
    table.load(hour)
    assert table.rows() == {("0", "a/b=c", 2)}


NOT_TOLD = (
    "cannot be the value of a partition: Delta cannot distinguish it from NULL there; replace it in the "
    "table's function"
)


class PlacedItem(Item):
    """An item with a column whose name is not plain."""

    place: T.StringType = pa.Field(alias="a:b", nullable=False)


class PrivateItem(Item):
    """An item with a partition that nobody is to see."""

    place: T.StringType = pa.Field(nullable=False, metadata={"personal": True})


def test_a_text_that_no_folder_can_be_named_after_is_quarantined_and_the_longest_one_is_loaded(
    spark: SparkSession, tmp_path: Path
) -> None:
    room = 255 - len("a%3Ab=")
    fit = [
        "x" * room,
        "é" * (room // 2),
        ":" * (room // 3),
        "x" * (room % 3) + "\n" * (room // 3),
        "\x7f{[]^~|<>`$&+; ",
    ]
    unfit = ["a\0b", "x" * (room + 1), "é" * (room // 2 + 1), "x" * (room % 3 + 1) + "\n" * (room // 3)]
    rows = [item(str(n), "v", 1, **{"a:b": value}) for n, value in enumerate([*fit, *unfit])]
    table = make(
        spark,
        tmp_path,
        {day(1): rows},
        contract=PlacedItem,
        write=Merge(partition_by="a:b"),
        quarantine=Quarantine(max_share=0.5),
    )
    table.load(1)
    assert table.rows("a:b") == {(value,) for value in fit}
    reasons = sorted(reason for (reasons,) in table.log("rejected", "_reasons") for reason in reasons)
    assert reasons.pop(0) == (
        "a:b: 'a\\0b' cannot be the value of a partition: a folder's name cannot contain the character NUL"
    )
    assert [reason.partition("' ")[2] for reason in reasons] == [
        "cannot be the value of a partition: its folder's name would exceed 255 bytes"
    ] * 3
    assert max(map(len, reasons)) < 200


def test_a_partition_of_a_person_is_not_shown_where_it_cannot_be_one(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "v", 1, place="some\0one")]}
    table = make(
        spark,
        tmp_path,
        content,
        contract=PrivateItem,
        write=Merge(partition_by="place"),
        quarantine=Quarantine(max_share=1),
    )
    table.load(1)
    [([reason],)] = table.log("rejected", "_reasons")
    assert reason.startswith("place: *** cannot be the value of a partition")


@pytest.mark.parametrize(("contract", "column"), [(DatedItem, "day"), (StampedItem, "at")])
@pytest.mark.parametrize("year", [10_000, 0, -5])
def test_a_partition_of_a_year_that_readers_spell_differently_is_quarantined(
    spark: SparkSession, tmp_path: Path, contract: type, column: str, year: int
) -> None:
    def far(changes: DataFrame) -> DataFrame:
        value = F.make_date(F.lit(year), F.lit(1), F.lit(1)).cast(changes.schema[column].dataType)
        return changes.withColumn(column, F.when(F.col("id") == "far", value).otherwise(F.col(column)))

    content = {day(1): [item("far", "v", 1, **{column: day(1)}), item("late", "v", 1, **{column: "9999-12-31"})]}
    table = make(
        spark,
        tmp_path,
        content,
        contract=contract,
        write=Merge(partition_by=column),
        function=far,
        quarantine=Quarantine(max_share=0.5),
    )
    assert bins(table.load(1).evidence) == (1, 0, 0, 1)
    assert table.rows("id") == {("late",)}
    [([reason],)] = table.log("rejected", "_reasons")
    assert reason.startswith(f"{column}: '")
    assert reason.endswith("cannot be the value of a partition: its year is not in 1..9999")


def test_a_key_and_a_sequence_of_a_far_year_are_as_good_as_any(spark: SparkSession, tmp_path: Path) -> None:
    def far(changes: DataFrame) -> DataFrame:
        return changes.withColumn("day", F.make_date(F.lit(10_000), F.lit(1), F.col("seq").cast("int")))

    changes = Changes(keys=["id", "day"], sequence_by=["seq"])
    content = {day(number): [item("1", "v", 1), item("1", str(number), 2)] for number in (1, 2)}
    table = make(spark, tmp_path, content, contract=DatedItem, changes=changes, function=far)
    table.load(1)
    assert bins(table.load(2).evidence)[3] == 0
    by_day = Changes(keys=["id"], sequence_by=["day"])
    table = make(spark, tmp_path, content, contract=DatedItem, changes=by_day, function=far, name="ordered")
    table.load(2)
    table.load(1)
    rows = spark.sql(f"SELECT id, seq FROM {table.lake.sql_name(table.uri)}")
    assert [tuple(row) for row in rows.head(2)] == [("1", 2)]


@pytest.mark.parametrize("write", [Merge(), Merge(soft_delete="is_deleted")], ids=["plain", "soft delete"])
def test_a_key_that_somebody_doubled_in_the_table_is_named_and_the_remedy_makes_the_table_right(
    spark: SparkSession, tmp_path: Path, write: Merge
) -> None:
    content = {day(1): [item("a", "v", 1), item("b", "v", 1)], day(2): [item("a", "w", 2)]}
    table = make(spark, tmp_path, content, write=write)
    table.load(1)
    name = table.lake.sql_name(table.uri)
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE id = 'a'")
    said = r"items 2026-01-02: the table has several rows of a key, for example of id .a.; such keys: 1\. .*delete"
    with pytest.raises(ReconciliationFailed, match=said):
        table.load(2)
    spark.sql(f"DELETE FROM {name} WHERE id = 'a'")
    for number in (1, 2):
        table.load(number)
    assert table.rows("id", "value") == {("a", "w"), ("b", "v")}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("count(op) > 1", "with an aggregate in it"),
        ("row_number() OVER (ORDER BY op) = 1", "with a window in it"),
        ("op IN (SELECT 'd')", "with a query in it"),
        ("meta.op = 'd'", "with a member of 'meta'"),
        ("value.op = 'd'", "with a member of 'value'"),
        ("op", "a column that is not boolean"),
        ("(value)", "a column that is not boolean"),
    ],
)
def test_a_condition_that_is_none_on_a_row_is_refused_where_it_is_declared(
    spark: SparkSession, tmp_path: Path, condition: str, said: str
) -> None:
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when=condition)
    with pytest.raises(DeclarationError, match=f"items: changes.delete_when is .*{said}.* Rule: .* Remedy: "):
        make(spark, tmp_path, changes=changes)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("opp(op) = 'd'", r"Spark does not understand it \(UNRESOLVED_ROUTINE\)"),
        ("upper(op)", "it is string, neither true nor false"),
        ("op = 1", r"it cannot be worked out for a row \(CAST_INVALID_INPUT\)"),
    ],
)
def test_a_condition_that_spark_cannot_work_out_is_named_and_no_value_is(
    spark: SparkSession, tmp_path: Path, condition: str, said: str
) -> None:
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when=condition)
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1, "1"), item("2", "a", 1, "secret")]}, changes=changes)
    with pytest.raises(DeclarationError, match=f"items 2026-01-01: changes.delete_when is .*{said}.* Remedy: ") as told:
        table.load(1)
    assert "secret" not in str(told.value)


def test_what_a_source_cannot_read_is_not_said_to_be_of_a_condition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract = LiteralSource.extract

    def broken(self: LiteralSource, *args: Any) -> DataFrame:
        fails = F.when(F.rand() < 2, F.raise_error(F.lit("no answer"))).otherwise(F.col("_raw"))
        return extract(self, *args).withColumn("_raw", fails)

    monkeypatch.setattr(LiteralSource, "extract", broken)
    with pytest.raises(PySparkException, match="no answer"):
        make(spark, tmp_path, {day(1): [item("1", "a", 1)]}).load(1)


class MemberItem(Item):
    """An item that says itself whether it is gone."""

    meta: T.StructType([T.StructField("op", T.StringType())]) = pa.Field(nullable=True)  # type: ignore[valid-type]
    gone: T.BooleanType = pa.Field(nullable=True)


@pytest.mark.parametrize("condition", ["meta.op = 'd'", "gone", "op = 'd' OR missing = 'x'"])
def test_a_condition_may_ask_for_a_member_and_for_what_is_true_or_false_and_null_is_no_delete(
    spark: SparkSession, tmp_path: Path, condition: str
) -> None:
    delete = item("1", "a", 2, "d", meta='{"op": "d"}', gone="true")
    content = {day(1): [item("1", "a", 1), item("2", "a", 1), delete]}
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when=condition)
    table = make(spark, tmp_path, content, contract=MemberItem, changes=changes)
    table.load(1)
    assert table.rows("id") == {("2",)}


def test_a_column_taken_out_of_the_contract_leaves_every_window_loadable(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "a", 1, day=day(1))], day(2): [item("1", "b", 2, day=day(1))]}
    make(spark, tmp_path, content, contract=DatedItem).load(1)
    make(spark, tmp_path, content, contract=DatedItem).load(2)
    narrower = make(spark, tmp_path, content, code_version="2")
    narrower.load(1)
    narrower.load(2)
    assert narrower.rows() == {("1", "b", 2)}


def test_a_correction_of_one_microsecond_takes_effect(spark: SparkSession, tmp_path: Path) -> None:
    stamped = "2026-01-01T00:00:00.{}+00:00"
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1, at=stamped.format("123456"))]}, contract=StampedItem)
    table.load(1)
    table.content[day(1)] = [item("1", "a", 1, at=stamped.format("123457"))]
    assert table.load(1).merged.updated == 1
    assert [row[0].microsecond for row in table.rows("at")] == [123457]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda changes: changes.filter("seq > 1"), "made 1 row of 2"),
        (lambda changes: changes.select("id", "value", "seq"), "returns no column '_record'"),
        (lambda changes: changes.drop("value"), "returns no column 'value'"),
        (lambda changes: changes.withColumn("extra", F.lit(1)), "returns 'extra', unknown to Item"),
        (lambda changes: changes.withColumn("seq", F.lit("1")), "returns 'seq' as string"),
    ],
)
def test_a_function_that_loses_rows_or_columns_is_refused(
    spark: SparkSession, tmp_path: Path, function: "type[DataFrame]", message: str
) -> None:
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1), item("2", "b", 2)]}, function=function)
    with pytest.raises(DeclarationError, match=message):
        table.load(1)
    assert table.rows() == set()


def test_rows_of_a_file_that_is_gone_stay_and_are_validated_by_a_new_contract_or_leave_where_that_is_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    def deliver(folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "a.json").write_text('{"id": "1", "value": "a", "seq": 1}\n{"id": "2", "value": "bad", "seq": 1}')
        return folder / "a.json"

    keep, retract = tmp_path / "keep" / day(1), tmp_path / "retract" / day(1)
    files = [deliver(keep), deliver(retract)]
    kept = make(spark, tmp_path, source=Files(f"{keep.parent}/{{window:%Y-%m-%d}}/*.json"), name="kept")
    left = make(
        spark, tmp_path, source=Files(f"{retract.parent}/{{window:%Y-%m-%d}}/*.json", deleted="retract"), name="left"
    )
    for table in (kept, left):
        table.load(1)
    for file in files:
        file.unlink()
    left.load(1)
    assert left.rows() == set()
    kept.load(1)
    assert kept.rows() == {("1", "a", 1), ("2", "bad", 1)}
    stricter = make(
        spark,
        tmp_path,
        source=Files(f"{keep.parent}/{{window:%Y-%m-%d}}/*.json"),
        name="kept",
        contract=GoodItem,
        code_version="2",
        quarantine=Quarantine(max_share=1),
    )
    assert stricter.load(1).evidence.quarantined == 1
    assert stricter.rows() == {("1", "a", 1)}

"""Landed rows validated by a changed contract: what would be quarantined and what would pass, as a load then finds."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Files, Quarantine
from incload_assets.load.replay import replay_window
from incload_assets.quarantine.decide import decide_where
from incload_assets.what_if.contract_replay import ValidatedAgain, validate_again
from tests.support.tables import GoodItem, Item, Loaded, day, item, make

LOOSE = Quarantine(max_share=0.5)


def of(table: Loaded, last: int = 10) -> ValidatedAgain:
    return validate_again(table.context(), last)


class DailyFiles:
    """A table of files of JSON, one a day."""

    def __init__(self, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INCLOAD_LANDING", str(folder / "landing"))
        self.spark, self.folder = spark, folder
        (folder / "landing").mkdir()

    def deliver(self, number: int, *lines: str) -> None:
        (self.folder / "landing" / f"{day(number)}.json").write_text("\n".join(lines) + "\n")

    def table(self, contract: type, **options: Any) -> Loaded:
        usual: dict[str, Any] = {
            "source": Files("{landing}/{window:%Y-%m-%d}.json"),
            "changes": Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
            "quarantine": LOOSE,
        }
        return make(self.spark, self.folder / "lake", contract=contract, **usual | options)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DailyFiles:
    return DailyFiles(spark, tmp_path, monkeypatch)


def test_what_a_stricter_contract_would_quarantine_is_told_by_reason_and_nothing_is_written(files: DailyFiles) -> None:
    files.deliver(1, '{"id": "a", "value": "bad", "seq": 1}', '{"id": "b", "seq": 1}', '{"id": "c", "seq": 1}')
    files.deliver(2, '{"id": "d", "value": "bad", "seq": 1}', '{"id": "e", "value": "bad", "seq": 1, "op": "d"}')
    before = files.table(Item)
    assert of(before).windows == (), "nothing is landed"
    before.load(1)
    before.load(2)
    versions = before.versions()

    assert of(before).refused == 0
    strict = files.table(GoodItem, code_version="2")
    found = of(strict)
    assert (found.windows, found.accepted, found.refused, found.stopping) == ([day(1), day(2)], 5, 2, [])
    [reason] = found.reasons
    assert (reason.reason, reason.rows) == ("value: is the excluded bad", 2)
    assert reason.samples == (f"id=a in {day(1)}", f"id=d in {day(2)}")
    assert [*found.lines("items")] == [
        "items: 2 of 5 landed rows of 2 windows would now be quarantined:",
        f"  2 x value: is the excluded bad (for example id=a in {day(1)}, id=d in {day(2)})",
        "items: 0 of 0 quarantined rows would now pass",
    ]
    last = of(strict, last=1)
    assert (last.windows, last.accepted, last.refused) == ([day(2)], 2, 1)
    assert before.versions() == versions
    tight = of(files.table(GoodItem, quarantine=Quarantine(max_share=0.4)))
    assert tight.stopping == [day(2)], "one of two rows, and of three in the other window"

    strict.load(1)  # as told
    assert [reasons for (reasons,) in strict.log("rejected", "_reasons")] == [["value: 'bad' is the excluded bad"]]


def test_quarantined_rows_that_would_pass_are_counted_and_collide_with_others_as_in_a_replay(files: DailyFiles) -> None:
    class Named(Item):
        class Config:
            unique = ["value"]  # noqa: RUF012 - pandera's own form

    class Strict(Named):
        seq: T.LongType = pa.Field(nullable=True, ge=1)

    files.deliver(
        1,
        '{"id": "a", "value": "x", "seq": 1}',
        '{"id": "b", "value": "x", "seq": 0}',
        '{"id": "c", "value": "y", "seq": 0}',
        '{"id": "d", "value": "z", "seq": "soon"}',
        '{"id": "e", "value": "w", "seq": 2}',
        '{"id": "f", "value": "v", "seq": 2}',
    )
    files.table(Strict).load(1)
    found = of(files.table(Named, code_version="2"))
    # a and b have the same value now, so that neither is accepted
    assert (found.accepted, found.rejected, found.passing, found.refused) == (3, 3, 1, 1)
    assert found.reasons[0].reason == "value: the same value under two keys, but it is unique"


def test_a_column_that_is_declared_now_is_validated_by_what_was_rescued(files: DailyFiles) -> None:
    class Counted(Item):
        count: T.IntegerType = pa.Field(nullable=True, ge=1)

    files.deliver(
        1,
        '{"id": "a", "seq": 1, "count": 1}',
        '{"id": "b", "seq": 1, "count": 0}',
        '{"id": "c", "seq": 1, "count": "many"}',
    )
    files.table(Item).load(1)
    found = of(files.table(Counted, code_version="2"))
    assert {one.reason: one.rows for one in found.reasons} == {"count: not >= 1": 1, "count: is not int": 1}
    assert "many" not in str([*found.lines("items")])


def test_rows_of_a_source_without_records_are_validated_by_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("a", "bad", 1), item("b", "x", 1), item("c", "x", None, op="x")]}
    make(spark, tmp_path, content).load(1)
    found = of(make(spark, tmp_path, content, contract=GoodItem, code_version="2"))
    assert (found.accepted, found.refused) == (3, 1)


def test_a_row_that_people_accepted_stays_accepted_and_one_without_its_record_is_not_validated(
    files: DailyFiles,
) -> None:
    files.deliver(1, '{"id": "a", "value": "bad", "seq": 1}', '{"id": "b", "seq": 1}', '{"id": "c", "seq": "x"}')
    table = files.table(GoodItem, quarantine=Quarantine(max_share=0.8))
    table.load(1)
    entry, _ = decide_where(table.spark, table.table, table.lake, "accept", "an exception", text="value: ")
    assert entry is not None
    replay_window(table.context(), table.table.window_of(day(1)))
    assert table.rows("id") == {("a",), ("b",)}
    found = of(table)
    assert (found.accepted, found.decided, found.refused, found.rejected, found.passing) == (1, 1, 0, 1, 0)
    assert "  1 row that people accepted count as accepted" in [*found.lines("items")]
    table.spark.sql(
        f"UPDATE {table.lake.sql_name(table.lake.log_uri(['items']))} SET _payload = 'expired' WHERE id = 'c'"
    )
    gone = of(table)
    assert (gone.rejected, gone.unvalidated, gone.passing) == (0, 1, 0)
    assert "  1 more keep no record that can be validated" in [*gone.lines("items")]


def test_keys_that_are_personal_are_masked(files: DailyFiles) -> None:
    class Personal(GoodItem):
        id: T.StringType = pa.Field(nullable=False, metadata={"personal": True})

    files.deliver(1, '{"id": "ada@example.com", "value": "bad", "seq": 1}', '{"id": "b", "seq": 1}')
    files.table(Item).load(1)
    found = of(files.table(Personal, code_version="2"))
    assert found.reasons[0].samples == (f"id=*** in {day(1)}",)
    assert "ada" not in str(found)

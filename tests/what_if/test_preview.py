"""The preview of a load: its numbers are those of the load that follows, and it changes nothing."""

import hashlib
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.declaration.changes import Changes
from incload_assets.declaration.window import window_of
from incload_assets.declaration.write import Write
from incload_assets.load.load import LoadReport
from incload_assets.platform.errors import ContractViolation, SchemaMismatch, SourceMissing
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.what_if.preview import Preview, preview
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from tests.support.tables import GoodItem, Item, Loaded, day, item, make
from tests.writes.case import SEED, Case, Content, crowds
from tests.writes.cases import CASES
from tests.writes.examples import Example, Run
from tests.writes.test_conformance import ROWS, light


class WiderItem(Item):
    """An item with a column that was not declared at first."""

    more: T.StringType = pa.Field(nullable=True)


class RetypedItem(Item):
    """An item whose value is declared as a number."""

    value: T.LongType = pa.Field(nullable=True)


def content_of(root: str) -> dict[str, str]:
    """The hash of every file and the name of every folder below."""
    there = sorted(Path(root).rglob("*"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in there}


def previewed(table: Loaded, window: int | str, **options: Any) -> Preview:
    """The preview of a load; checks that it leaves the lake as it was."""
    key = window if isinstance(window, str) else day(window)
    before = content_of(table.lake.root)
    with preview(table.spark, table.table, table.lake, window_of(table.table.partitions_def, key), **options) as found:
        done = found
    after = content_of(table.lake.root)
    assert {path: hash for path, hash in after.items() if hash} == {p: h for p, h in before.items() if h}
    return done


class PreviewedFirst(Loaded):
    """A table of which each load is previewed, and has to report what the preview said."""

    def load(self, window: int | str, **options: Any) -> LoadReport:
        """Preview, load, compare."""
        said = previewed(self, window, **options).report
        done = super().load(window, **options)
        assert numbers(said) == numbers(done)
        return done

    def replay(self, report: LoadReport) -> LoadReport:
        """Preview, load once more, compare."""
        return self.load(report.window.key, checkpoint=Checkpoint(report.record.fingerprint, clean=True))


def numbers(report: LoadReport) -> dict[str, Any]:
    """Everything that a load reports, but for times, runs, sizes and versions."""
    merged, record = report.merged, report.record
    return {
        "evidence": report.evidence,
        "merged": (merged.inserted, merged.updated, merged.deleted),
        "ingested": report.ingested,
        "committed": report.committed,
        "record": (record.landing, record.fingerprint, record.rows_read, record.rejected, record.skipped),
        "touched": (record.replaced, record.partitions, record.first_sequence),
    }


def first(spark: SparkSession, folder: Path, **options: Any) -> PreviewedFirst:
    """A table whose loads are previewed."""
    content = {day(1): [item("a", "x", 1), item("b", "y", 1)], day(2): [item("a", "z", 2), item("b", None, 3, "d")]}
    return PreviewedFirst(**vars(make(spark, folder, content, **options)))


def test_a_table_that_does_not_exist_is_previewed_and_nothing_is_made(spark: SparkSession, tmp_path: Path) -> None:
    table = first(spark, tmp_path / "lake")
    found = previewed(table, 1)
    assert (found.report.merged.inserted, found.report.evidence.applied) == (2, 2)
    assert content_of(str(tmp_path)) == {}


def test_a_preview_reads_the_rows_that_it_has_staged_and_leaves_none_of_them_if_it_is_interrupted(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = first(spark, tmp_path)
    for number in (1, 2, 1):
        table.load(number)
    table.content[day(1)] = [item("a", "later", 3), item("c", "new", 1)]
    found = previewed(table, 1).report
    assert (found.merged.inserted, found.merged.updated, found.record.replaced) == (1, 1, 1)
    before, window = content_of(table.lake.root), window_of(table.table.partitions_def, day(1))
    with pytest.raises(KeyboardInterrupt), preview(spark, table.table, table.lake, window):
        raise KeyboardInterrupt
    assert {path for path, hash in content_of(table.lake.root).items() if hash} == {p for p, h in before.items() if h}
    table.load(1)
    assert table.rows() == {("a", "later", 3), ("c", "new", 1)}


@pytest.mark.parametrize("write", [Merge(partial=True), History(partial=True)], ids=["merge", "history"])
def test_a_column_that_the_tables_lack_is_previewed_as_the_load_adds_it(
    spark: SparkSession, tmp_path: Path, write: Write
) -> None:
    changes = Changes(keys=["id"], sequence_by=["seq"])
    options = {"changes": changes, "write": write}
    old = make(spark, tmp_path, {day(1): [item("a", "x", 1)]}, **options)
    old.load(1)
    content = {day(1): old.content[day(1)], day(2): [{"id": "a", "seq": "2", "more": "m"}]}
    table = PreviewedFirst(**vars(make(spark, tmp_path, content, contract=WiderItem, code_version="2", **options)))
    table.load(2)
    table.load(1)
    assert ("a", "x", 2, "m") in table.rows("id", "value", "seq", "more")


def test_what_stops_a_load_stops_its_preview(spark: SparkSession, tmp_path: Path) -> None:
    table = first(spark, tmp_path, contract=GoodItem)
    table.load(1)
    table.content[day(2)] = [item("a", "bad", 2)]
    with pytest.raises(ContractViolation, match="1 of 1 row"):
        previewed(table, 2)
    with pytest.raises(SourceMissing, match="nothing for this window"):
        previewed(table, 3)
    with pytest.raises(SchemaMismatch):
        previewed(first(spark, tmp_path, contract=RetypedItem), 1)


@st.composite
def few_loads(draw: st.DrawFn, case: Case) -> Example:
    """Loads of two windows in any order, one of them repeated and one rewritten, and repairs of what somebody edits."""
    contents = crowds() if case.contents is None else case.contents
    content: st.SearchStrategy[Content] = contents.filter(lambda content: sum(map(len, content.values())) >= ROWS)
    first, second = draw(st.permutations((2, 3)))
    steps = [
        ("load", (first,)),
        ("load", (second,)),
        ("load", (first,)),
        ("replay", (second,)),
        ("rewrite", (first,)),
        ("edited", ()),
    ]
    return Example(steps, draw(content), draw(content))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_a_preview_says_what_the_load_then_reports_and_changes_no_file(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    run = Run(spark, case, data.draw(few_loads(case), label="example"))
    run.table = PreviewedFirst(**vars(run.table))
    run.go()

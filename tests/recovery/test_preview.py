"""The preview of a load: its numbers are those of the load that follows, and it changes nothing."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.declaration.window import window_of
from incload_assets.load.load import LoadReport
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.recovery.preview import Preview, preview
from tests.support.tables import Loaded, day
from tests.writes.case import SEED, Case
from tests.writes.cases import CASES
from tests.writes.examples import Run
from tests.writes.test_conformance import examples, light


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
        return self.load(report.window.key, checkpoint=Checkpoint(report.control.fingerprint, clean=True))


def numbers(report: LoadReport) -> dict[str, Any]:
    """Everything that a load reports, but for times, runs, sizes and versions."""
    merged, control = report.merged, report.control
    return {
        "evidence": report.evidence,
        "merged": (merged.inserted, merged.updated, merged.deleted),
        "ingested": report.ingested,
        "committed": report.committed,
        "record": (control.landing, control.fingerprint, control.rows_read, control.rejected, control.skipped),
        "touched": (control.replaced, control.partitions, control.first_sequence),
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_a_preview_says_what_the_load_then_reports_and_changes_no_file(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    run = Run(spark, case, data.draw(examples(case), label="example"))
    run.table = PreviewedFirst(**vars(run.table))
    run.go()

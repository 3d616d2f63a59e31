"""The size of what Dagster writes for a run."""

import sqlite3
from pathlib import Path

import dagster as dg

from incload_assets.platform.run_files import keep_small


@dg.job
def empty() -> None:
    """A job without steps."""


def test_the_file_of_a_run_has_small_pages_and_others_keep_theirs(tmp_path: Path) -> None:
    keep_small()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        run = instance.create_run_for_job(empty)
        instance.report_engine_event("began", run)
        assert [entry.message for entry in instance.all_logs(run.run_id)] == ["began"]
    folder = tmp_path / "history" / "runs"
    pages = {file.name: sqlite3.connect(file).execute("PRAGMA page_size").fetchone()[0] for file in folder.glob("*.db")}
    assert pages == {"index.db": 4096, f"{run.run_id}.db": 1024}
    assert (folder / f"{run.run_id}.db").stat().st_size < 60_000

"""``incload history``, ``backup``, ``restore-instance`` and ``rebuild``, as a person runs them."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

HEADER = "payment_id,payer,amount,updated_at,state\n"
PLAIN = {"INCLOAD_SAMPLES": "false"}
TABLE = "my_lake/tables/payments.py"


@pytest.mark.slow
def test_partitions_are_green_again_after_dagsters_storage_was_lost(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, readme_files()[TABLE])
    for number in (1, 2):
        row = f"{number},Ada,{number}.00,2026-01-0{number}T09:00:00Z,booked\n"
        clone.write(f".incload/landing/payments/2026-01-0{number}.csv", HEADER + row)
    assert clone.incload("load", "payments", "--partitions", "2026-01-01..2026-01-02", **PLAIN).returncode == 0

    saved = clone.incload("backup", "--to", "saved", **PLAIN)
    [archive] = (clone.root / "saved").glob("dagster-*.zip")
    code, asked = clone.at_terminal("no", "restore-instance", str(archive), **PLAIN)
    before = json.loads(clone.incload("history", "payments", "--json", **PLAIN).stdout)
    shown = clone.incload("history", "payments", "2026-01-02", **PLAIN).stdout
    for path in (clone.root / ".dagster_home").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    lost = clone.incload("status", **PLAIN)
    restored = clone.incload("restore-instance", str(archive), "--yes", **PLAIN)
    brought_back = clone.status("payments", **PLAIN)["loaded"]
    for path in (clone.root / ".dagster_home").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    landing, away = clone.root / ".incload" / "landing", clone.root / "away"
    landing.rename(away)  # the source is not read
    dry = clone.incload("rebuild", "--dry-run", **PLAIN)
    done = clone.incload("rebuild", **PLAIN)
    away.rename(landing)

    assert [(row["window"], row["outcome"], row["trigger"]) for row in before] == [
        ("2026-01-01", "loaded", "terminal"),
        ("2026-01-02", "loaded", "terminal"),
    ]
    assert "2026-01-02" in shown and "2026-01-01" not in shown and "+1 ~0 -0" in shown
    assert code == 1 and "what was typed is not the name of the backup's file" in asked
    assert "0 of 1 run in " in asked and f"began after {archive.name} was made; they, their checkpoints" in asked
    assert (dry.returncode, dry.stdout) == (0, "payments: 2 could be rebuilt, 0 known already, 0 not proven\n")
    assert saved.returncode == 0 and str(archive.name) in saved.stdout
    assert restored.stdout.startswith(f"restored {archive.name}; what was there is in ")
    assert (lost.returncode, lost.stderr) == (
        1,
        "Error: the log has loads of 2 partitions of payments that Dagster does not know: its storage was lost, or "
        "DAGSTER_HOME is another one. Remedy: put a backup back (incload restore-instance), or prove the partitions "
        "from the tables, which reads no source: incload rebuild payments\n",
    )
    assert brought_back == ["2026-01-01", "2026-01-02"]
    assert (done.returncode, done.stdout) == (0, "payments: 2 rebuilt, 0 known already, 0 not proven\n")
    assert clone.status("payments", **PLAIN)["loaded"] == ["2026-01-01", "2026-01-02"]
    assert json.loads(clone.incload("history", "payments", "--json", **PLAIN).stdout) == before

"""``incload pause``, ``resume``, ``audit`` and ``doctor``, as a person runs them."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.project_copy import Clone, readme_files

HEADER = "payment_id,payer,amount,updated_at,state\n"
PLAIN = {"INCLOAD_SAMPLES": "false", "GITHUB_ACTOR": "ada"}
TABLE = "my_lake/tables/payments.py"
DAY = "--partitions", "2026-01-01"


@pytest.mark.slow
def test_a_paused_table_an_altered_audit_and_a_moved_lake_are_told_and_loads_are_refused(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, readme_files()[TABLE])
    clone.write(".incload/landing/payments/2026-01-01.csv", HEADER + "1,Ada,1.00,2026-01-01T09:00:00Z,booked\n")
    lake, moved = clone.root / ".incload" / "lake", clone.root / "moved"
    there = {**PLAIN, "INCLOAD_LAKE": str(moved)}

    paused = clone.incload("pause", "payments", "--until", "2h", "--because", "the bank is migrating", **PLAIN)
    refused = clone.incload("load", "payments", *DAY, **PLAIN)
    silenced = clone.incload("silence", "--until", "1h", "--because", "deployment", **PLAIN)
    shown = clone.incload("status", **PLAIN)
    told_again = clone.incload("silence", "--off", **PLAIN)
    resumed = clone.incload("resume", "payments", **PLAIN)
    loaded = clone.incload("load", "payments", *DAY, **PLAIN)
    healthy = clone.incload("doctor", **PLAIN)
    audit = clone.incload("audit", "payments", "--since", "1d", "--json", **PLAIN)
    grid = clone.incload("audit", **PLAIN)
    lake.rename(moved)
    copied = clone.incload("doctor", "payments", **there)
    elsewhere = clone.incload("load", "payments", *DAY, **there)
    adopted = clone.incload("doctor", "--adopt-lake", **there)
    again = clone.incload("load", "payments", *DAY, **there)
    DeltaTable(str(moved / "_audit")).delete("number = 2")
    altered = clone.incload("audit", **there)
    sick = clone.incload("doctor", **there)

    said = paused.stdout.strip()
    assert said.startswith("payments is paused by ada since 20") and said.endswith("UTC: the bank is migrating")
    assert refused.returncode == 1 and said in refused.stderr and "incload resume payments" in refused.stderr
    assert said in shown.stdout
    assert silenced.stdout.startswith("every table is silenced by ada since 20")
    assert silenced.stdout.strip().removeprefix("every") in shown.stdout
    assert told_again.stdout.startswith("every table is reported again; it was silenced by ada")
    assert resumed.stdout.startswith("payments is loaded again; it was paused by ada")
    assert loaded.returncode == 0
    assert (healthy.returncode, healthy.stdout) == (0, "1 table examined: Dagster, logs, tables and lake agree\n")
    entries = json.loads(audit.stdout)["entries"]
    assert [(e["action"], e["actor"], e["partitions"], bool(e["run_id"])) for e in entries] == [
        ("pause", "ada", [], False),
        ("silence", "ada", [], False),
        ("unsilence", "ada", [], False),
        ("resume", "ada", [], False),
        ("load", "ada", ["2026-01-01"], True),
    ]
    assert grid.returncode == 0 and "5 entries, none altered" in grid.stdout
    assert copied.returncode == 1 and copied.stdout.count("Remedy:") == 1
    assert "incload doctor --adopt-lake" in copied.stdout
    assert elsewhere.returncode == 1 and "incload doctor --adopt-lake" in elsewhere.stderr
    assert adopted.returncode == 0 and "is adopted for 1 of 1 table" in adopted.stdout
    assert again.returncode == 0
    assert altered.returncode == 1 and "the audit was altered from entry 2 on: it is missing" in altered.stderr
    assert sick.returncode == 1 and sick.stdout.startswith("audit: the audit was altered from entry 2 on")

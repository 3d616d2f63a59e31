"""``incload undo`` and ``incload release``, as a person runs them."""

import json
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

HEADER = "payment_id,payer,amount,updated_at,state\n"
PLAIN = {"INCLOAD_SAMPLES": "false"}
TABLE = "my_lake/tables/payments.py"
FILE = ".incload/landing/payments/2026-01-01.csv"
DAY = ("--partitions", "2026-01-01")


@pytest.mark.slow
def test_a_bad_load_is_undone_held_and_loaded_again_when_its_file_is_corrected(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, readme_files()[TABLE])

    def deliver(amount: str) -> None:
        clone.write(FILE, f"{HEADER}1,Ada,{amount},2026-01-01T09:00:00Z,booked\n")

    deliver("1.00")
    never = clone.incload("undo", "payments", *DAY, **PLAIN)
    assert clone.incload("load", "payments", *DAY, **PLAIN).returncode == 0
    deliver("999.00")
    assert clone.incload("load", "payments", *DAY, **PLAIN).returncode == 0
    planned = clone.incload("undo", "payments", *DAY, "--plan", **PLAIN)
    undone = clone.incload("undo", "payments", *DAY, "--because", "wrong amounts", **PLAIN)
    held = clone.status("payments", **PLAIN)
    refused = clone.incload("load", "payments", *DAY, **PLAIN)
    nothing = clone.incload("load", "payments", "--all-missing", **PLAIN)
    released = clone.incload("release", "payments", *DAY, "--because", "they are right", **PLAIN)
    assert clone.incload("undo", "payments", *DAY, **PLAIN).returncode == 0
    deliver("2.00")
    drifted = clone.status("payments", **PLAIN)["drifted"]
    corrected = clone.incload("load", "payments", "--all-missing", **PLAIN)
    history = json.loads(clone.incload("history", "payments", "--json", **PLAIN).stdout)
    shown = clone.incload("history", "payments", **PLAIN).stdout
    audit = json.loads(clone.incload("audit", "payments", "--json", **PLAIN).stdout)["entries"]

    assert never.returncode == 1 and "was never loaded" in never.stderr + never.stdout
    assert planned.returncode == 0 and "1 file" in planned.stdout
    assert undone.returncode == 0 and "1 updated; held by " in " ".join(undone.stdout.split())
    assert held["held"] == ["2026-01-01"] and held["loaded"] == []
    assert held["holds"]["2026-01-01"].endswith("wrong amounts")
    assert refused.returncode == 1 and "incload release payments --partitions 2026-01-01" in refused.stdout
    assert nothing.returncode == 0
    assert released.returncode == 0 and "1 updated" in released.stdout
    assert drifted == ["2026-01-01"]
    assert corrected.returncode == 0 and "1 updated" in corrected.stdout
    assert clone.status("payments", **PLAIN)["loaded"] == ["2026-01-01"]
    kept = {row["landing"]: row["kept_until"] for row in history if row["outcome"] == "loaded"}
    assert sorted(kept) == [1, 2, 3, 4, 5, 6] and [number for number in kept if kept[number] is None] == [6]
    assert {row["landing"] for row in history if row["outcome"] == "failed"} == {None}
    assert [row["landing"] for row in history if row.get("undo_returns_to_it")] == [5]
    assert "landing 6: is in the table" in " ".join(shown.split())
    assert [(entry["action"], "failed" in entry["details"], entry["because"]) for entry in audit] == [
        ("load", False, ""), ("load", False, ""), ("undo", False, "wrong amounts"),
        ("release", False, "they are right"), ("undo", False, ""), ("load", False, ""),
        ("undo", True, ""), ("load", True, ""),  # which changed nothing
    ]  # fmt: skip

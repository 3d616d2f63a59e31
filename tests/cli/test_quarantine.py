"""``incload quarantine``, ``discard``, ``replay`` and ``accept``, as a person runs them."""

import csv
import json
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false", "COLUMNS": "140"}
TABLE = "my_lake/tables/payments.py"
FILE = ".incload/landing/payments/2026-01-05.csv"


@pytest.mark.slow
def test_rejected_rows_are_shown_exported_discarded_replayed_after_a_change_of_the_contract_and_accepted(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, declared := readme_files()[TABLE])
    bad = "5,Alan,free,2026-01-05T13:00:00Z,booked\n6,Grace,-9,2026-01-05T13:30:00Z,booked\n"
    clone.write(FILE, readme_files()[FILE] + bad)
    wide = declared.replace("gt=0", "ge=-5").replace(
        "changes=Changes", "quarantine=Quarantine(max_share=0.5),\n    changes=Changes"
    )
    declared = declared.replace("changes=Changes", "quarantine=Quarantine(max_share=0.5),\n    changes=Changes")
    imported = "import Changes, Files, Quarantine, incremental_asset"
    clone.write(TABLE, declared.replace("import Changes, Files, incremental_asset", imported))
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN).returncode == 0

    shown = clone.incload("quarantine", "payments", **PLAIN)
    told = json.loads(clone.incload("quarantine", "--json", **PLAIN).stdout)
    exported = clone.incload("quarantine", "payments", "--export", "for the bank.csv", **PLAIN)
    wrong = clone.incload("quarantine", "payments", "--export", "for the bank.xlsx", **PLAIN)
    matching = ("discard", "payments", "--reason", "is not decimal", "--because", "a test")
    mistyped = clone.at_terminal("payment", *matching, **PLAIN)
    discarded = clone.incload(*matching, "--yes", **PLAIN)
    (clone.root / FILE).unlink()
    clone.write(TABLE, wide.replace("import Changes, Files, incremental_asset", imported))
    replayed = clone.incload("replay", "payments", "--because", "refunds are payments", **PLAIN)
    after = clone.incload("quarantine", "payments", "--reasons", **PLAIN)
    reopened = clone.incload("discard", "payments", "--undo", "3", "--because", "the amount was found", **PLAIN)
    vain = clone.incload("accept", "payments", "--because", "a guess", **PLAIN)
    exception = ("accept", "payments", "--reason", "not >= -5", "--because", "a large refund")
    accepted, nothing = clone.incload(*exception, **PLAIN), clone.incload(*exception, **PLAIN)

    assert shown.returncode == 0 and "open, 2026-01-05, payments/2026-01-05.csv row 6" in shown.stdout
    assert "Barbara" not in shown.stdout and '"payer": "***"' in shown.stdout
    assert sorted((one["column"], one["rows"], one["open"]) for one in told["payments"]) == [
        ("amount", n, n) for n in (1, 2)
    ]
    assert exported.stdout == "payments: 3 rows written to for the bank.csv\n"
    rows = list(csv.DictReader((clone.root / "for the bank.csv").read_text().splitlines()))
    assert [(row["file"], row["row"], json.loads(row["payload"])["payer"]) for row in rows] == [
        ("payments/2026-01-05.csv", "6", "Barbara"),
        ("payments/2026-01-05.csv", "7", "Alan"),
        ("payments/2026-01-05.csv", "8", "Grace"),
    ]
    assert wrong.returncode == 1 and "Remedy: name a file that ends in .csv or .jsonl" in wrong.stderr
    assert mistyped[0] == 1 and "what was typed is not the table's name" in mistyped[1]
    asked = "1 rejected row of 1 partition (2026-01-05) will no longer be open, without a correction"
    assert f"payments: {asked}" in mistyped[1]
    assert discarded.stdout.startswith("payments: discarded 1 row. To take it back: incload discard payments --undo 3")
    assert replayed.returncode == 0
    assert replayed.stdout.endswith("payments: validated 3 rejected rows again; 1 pass, 2 stay rejected.\n")
    assert "is not decimal" in after.stdout and "Barbara" not in after.stdout
    assert reopened.stdout == "payments: 1 row open again.\n"
    assert vain.returncode == 1 and "would be rejected: amount: 'free' is not decimal(12,2)" in vain.stderr
    assert accepted.stdout.startswith("payments: accepted 1 row. To take it back: incload accept payments --undo ")
    assert accepted.stdout.endswith("payments: validated 2 rejected rows again; 1 pass, 1 stay rejected.\n")
    assert nothing.stdout == "payments: no open rejected row matches.\n"
    assert clone.status("payments", **PLAIN)["loaded"] == ["2026-01-05"]

"""``incload erase``, as a person runs it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from incload_assets.declaration.window import now
from incload_assets.platform.lake import Lake
from incload_assets.progress.claims import claim
from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false", "COLUMNS": "160"}
TABLE = "my_lake/tables/payments.py"
FILE = ".incload/landing/payments/2026-01-05.csv"


@pytest.mark.slow
def test_a_payer_is_erased_with_a_proof_in_the_audit_and_a_load_does_not_bring_the_payer_back(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    declared = readme_files()[TABLE]
    imported = "import Changes,"
    assert imported in declared
    clone.write(
        TABLE,
        declared.replace(
            "@incremental_asset(\n", '@incremental_asset(\n    subject=Subject("payer", by="payer"),\n'
        ).replace(imported, "import Subject, Changes,"),
    )
    clone.write(FILE, readme_files()[FILE] + "8,Grace Hopper-4711,3.00,2026-01-05T09:00:00Z,booked\n")
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN).returncode == 0

    unknown = clone.incload("erase", "customer", "Grace Hopper-4711", "--yes", **PLAIN)
    not_asked = clone.incload("erase", "payer", "Grace Hopper-4711", **PLAIN)
    mistyped = clone.at_terminal("Grace Hopper", "erase", "payer", "Grace Hopper-4711", **PLAIN)
    lake = Lake(str(clone.root / ".incload/lake"))
    claim(lake, "payments", now() + timedelta(hours=1), "a payer is erased", holder="another", actor="ada")
    refused = clone.incload("erase", "payer", "Grace Hopper-4711", "--yes", **PLAIN)
    resumed = clone.incload("resume", "payments", **PLAIN)
    shown = clone.incload("audit", **PLAIN).stdout
    planned = clone.incload("erase", "payer", "Grace Hopper-4711", "--plan", **PLAIN)
    code, erased = clone.at_terminal(
        "Grace Hopper-4711", "erase", "payer", "Grace Hopper-4711", "--because", "request 17", **PLAIN
    )
    (clone.root / FILE).touch()
    again = clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN)
    audited = json.loads(clone.incload("audit", "--json", **PLAIN).stdout)["entries"]

    assert unknown.returncode == 1
    assert "no table has persons of the kind 'customer'; there are: payer. Rule: " in unknown.stderr
    assert (not_asked.returncode, not_asked.stderr) == (
        1,
        "Error: incload erase asks before it goes on, and its input is no terminal. Rule: what cannot be taken back is "
        "confirmed by a person first; nothing was changed. Remedy: see what it would do at a terminal; a script "
        "adds --yes.\n",
    )
    assert mistyped[0] == 1 and "what was typed is not the identifier of the payer" in mistyped[1]
    assert (refused.returncode, resumed.returncode) == (1, 0)
    assert "payments: another payer is being erased from it; it is paused by ada" in " ".join(refused.stderr.split())
    assert "erase, failed" in shown
    assert "payments: 1 row of the table, 1 change in 1 window of its log, 0 of them rejected" in planned.stdout
    assert code == 0 and ": 0 with a trace" in erased
    before, asked, _ = erased.partition("This cannot be taken back. To go on, type the identifier of the payer: ")
    assert asked and "payments: 1 row of the table, 1 change in 1 window of its log" in before
    assert again.returncode == 0 and "1 erased" in again.stdout
    rows = DeltaTable(clone.root / ".incload/lake/payments").to_pyarrow_table(columns=["payer"])
    assert "Grace Hopper-4711" not in rows["payer"].to_pylist()
    [failed, proof] = [entry for entry in audited if entry["action"] == "erase"]
    assert failed["details"] == {"at": "its beginning", "failed": "IncrementalLoadError", "kind": "payer"}
    assert (proof["because"], proof["details"]["hits"]) == ("request 17", "0")
    assert int(proof["details"]["files"]) > 10
    left = [path for path in (clone.root / ".incload/lake").rglob("*") if path.is_file()]
    assert not [path for path in left if b"Hopper-4711" in path.read_bytes()]

"""``incload reveal``, as a person runs it."""

import json
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

KEYS = {"INCLOAD_KEY_CRM": "c" * 40, "INCLOAD_KEY_ERASURE": "e" * 40}
PLAIN = {"INCLOAD_SAMPLES": "false", "COLUMNS": "160"} | KEYS
TABLE = "my_lake/tables/payments.py"
FILE = ".incload/landing/payments/2026-01-05.csv"


@pytest.mark.slow
def test_who_has_the_keys_reads_an_encrypted_value_and_the_audit_knows_it(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    declared = readme_files()[TABLE].replace("import Changes,", "import Changes, Encrypted, Subject,")
    assert '{"personal": True}' in declared
    declared = declared.replace('{"personal": True}', '{"personal": Encrypted(key="crm")}')
    subject = '@incremental_asset(\n    subject=Subject("account", by="payment_id"),\n'
    clone.write(TABLE, declared.replace("@incremental_asset(\n", subject))
    clone.write(FILE, readme_files()[FILE] + "8,Grace Hopper-4711,3.00,2026-01-05T09:00:00Z,booked\n")
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN).returncode == 0
    assert not [
        path for path in (clone.root / ".incload/lake").rglob("*") if path.is_file() and b"Hopper" in path.read_bytes()
    ]

    asked = ("reveal", "payments", "payment_id=8", "--because", "request 17")
    shown = clone.incload(*asked, **PLAIN)
    nobody = clone.incload("reveal", "payments", "payment_id=99", "--because", "request 18", **PLAIN)
    other = clone.incload(*asked, **PLAIN | {"INCLOAD_KEY_CRM": "d" * 40})
    without = clone.incload(*asked, **PLAIN | {"INCLOAD_KEY_CRM": ""})
    audited = json.loads(clone.incload("audit", "--json", **PLAIN).stdout)["entries"]

    assert shown.stdout.strip() == "payer: Grace Hopper-4711"
    assert nobody.stdout.strip() == "payments: no row has this key."
    assert "payer: (cannot be turned back" in other.stdout
    assert without.returncode == 1 and "key 'crm' for personal values" in without.stderr
    reads = [entry for entry in audited if entry["action"] == "read"]
    assert [(entry["because"], entry["details"]["columns"]) for entry in reads] == [
        ("request 17", "payer"),
        ("request 18", "payer"),
        ("request 17", "payer"),
    ]
    assert "Hopper" not in json.dumps(audited)

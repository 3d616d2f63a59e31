"""``incload plan`` and ``incload load --plan``, as a person runs them."""

import json
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

HEADER = "payment_id,payer,amount,updated_at,state\n"
PLAIN = {"INCLOAD_SAMPLES": "false"}
TABLE = "my_lake/tables/payments.py"
DAY = ".incload/landing/payments/2026-01-01.csv"


@pytest.mark.slow
def test_a_plan_says_what_its_load_does_and_a_load_by_an_outdated_plan_is_refused(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, readme_files()[TABLE])
    clone.write(DAY, HEADER + "1,Ada,1.00,2026-01-01T09:00:00Z,booked\n")

    planned = clone.incload("plan", "payments", "--all-missing", "--out", "plan.json", **PLAIN)
    lake = [path for path in (clone.root / ".incload" / "lake").rglob("*") if path.is_file()]
    clone.write(DAY, HEADER + "1,Ada,1.00,2026-01-01T09:00:00Z,booked\n2,Ada,2.00,2026-01-01T09:00:00Z,booked\n")
    refused = clone.incload("load", "payments", "--plan", "plan.json", **PLAIN)
    again = clone.incload("plan", "payments", "--partitions", "2026-01-01", "--json", "--out", "plan.json", **PLAIN)
    loaded = clone.incload("load", "payments", "--plan", "plan.json", **PLAIN)
    nothing = clone.incload("plan", "payments", "--partitions", "2026-01-01", **PLAIN)
    no_plan = clone.incload("load", "payments", "--plan", DAY, **PLAIN)

    assert planned.returncode == 2 and "~ 2026-01-01  1 read: 1 inserted\n" in planned.stdout
    assert lake == []
    assert refused.returncode == 1 and "2026-01-01: the source held 1 file" in refused.stderr
    assert again.returncode == 2 and json.loads(again.stdout)["windows"][0]["inserted"] == 2
    assert loaded.returncode == 0 and "2 read, 2 inserted" in loaded.stdout
    assert nothing.returncode == 0 and "= 2026-01-01  nothing to do (2 unchanged)" in nothing.stdout
    assert no_plan.returncode == 1 and "is not a plan of loads" in no_plan.stderr

"""``incload fill``, as a person runs it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false", "COLUMNS": "140"}
TABLE = "my_lake/tables/payments.py"
FILE = ".incload/landing/payments/2026-01-05.csv"
LATER = ".incload/landing/payments/2026-01-06.csv"


@pytest.mark.slow
def test_a_column_that_is_declared_later_is_filled_although_its_file_is_gone_and_the_audit_says_by_whom(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, declared := readme_files()[TABLE])
    head, *lines = readme_files()[FILE].splitlines()
    clone.write(FILE, "\n".join([f"{head},channel", *(f"{line},web" for line in lines)]) + "\n")
    clone.write(LATER, f"{head}\n7,Alan,3.00,2026-01-06T09:00:00Z,booked\n")
    assert clone.incload("load", "payments", "--partitions", "2026-01-05..2026-01-06", **PLAIN).returncode == 0
    before = clone.incload("fill", "payments", **PLAIN)
    last = "    updated_at: T.TimestampType = pa.Field(nullable=False)\n"
    clone.write(TABLE, declared.replace(last, f"{last}    channel: T.StringType = pa.Field(nullable=True)\n"))
    (clone.root / FILE).unlink()

    filled = clone.incload("fill", "payments", "--because", "asked by sales", **PLAIN)
    again = clone.incload("fill", "payments", **PLAIN)
    rows = DeltaTable(clone.root / ".incload/lake/payments").to_pyarrow_table(columns=["payment_id", "channel"])
    audited = clone.incload("audit", "payments", **PLAIN)

    assert before.stdout == again.stdout == "payments: no rescued field that a column lacks.\n"
    assert "payments: 1 partition has rescued values of channel; 1 has none to fill\n" in filled.stdout
    assert filled.returncode == 0 and "2 updated" in filled.stdout
    assert {(row["payment_id"], row["channel"]) for row in rows.to_pylist()} == {(1, "web"), (2, "web"), (7, None)}
    assert "fill " in audited.stdout and "asked by sales" in audited.stdout
    assert clone.status("payments", **PLAIN)["loaded"] == ["2026-01-05", "2026-01-06"]

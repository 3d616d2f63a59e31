"""``incload adopt`` and ``shadow``, as a person runs them."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}
TABLE = "my_lake/tables/payments.py"
SCHEMA = pa.schema(
    [
        ("payment_id", pa.int64()),
        ("payer", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("updated_at", pa.timestamp("us", "UTC")),
    ]
)


@pytest.mark.slow
def test_a_table_of_somebody_else_is_adopted_loaded_and_tried_with_other_code(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write(TABLE, readme_files()[TABLE])
    lake = clone.root / ".incload" / "lake" / "payments"
    at = datetime(2025, 12, 1, tzinfo=UTC)
    rows = [{"payment_id": n, "payer": "Ada", "amount": Decimal(n), "updated_at": at} for n in (1, 2, 900)]
    write_deltalake(lake, pa.Table.from_pylist(rows, SCHEMA))
    line = "1,Ada,10.00,2026-01-05T09:00:00Z,booked\n"
    clone.write(".incload/landing/payments/2026-01-05.csv", f"payment_id,payer,amount,updated_at,state\n{line}")

    refused = clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN)
    dry = clone.incload("adopt", "payments", "--dry-run", **PLAIN)
    done = clone.incload("adopt", "payments", "--because", "made by the former pipeline", **PLAIN)
    loaded = clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN)
    same = clone.incload("shadow", "payments", **PLAIN)
    changed = readme_files()[TABLE].replace("return changes", 'return changes.withColumn("payer", F.lit("A"))')
    clone.write(TABLE, changed.replace("import DataFrame", "import DataFrame\nfrom pyspark.sql import functions as F"))
    other = clone.incload("shadow", "payments", **PLAIN)
    promoted = clone.incload("shadow", "payments", "--promote", **PLAIN)
    left = list((clone.root / ".incload" / "lake" / "_shadow").rglob("*.parquet"))
    again = clone.incload("shadow", "payments", **PLAIN)
    removed = clone.incload("shadow", "payments", "--drop", **PLAIN)

    assert refused.returncode == 1 and "incload adopt payments" in refused.stdout + refused.stderr
    assert dry.returncode == 0 and "could be adopted, 3 rows of version 0 in 1 part" in dry.stdout
    assert done.returncode == 0 and "payments: adopted, 3 rows" in done.stdout
    assert "others have written the table" in done.stdout
    assert loaded.returncode == 0 and "1 updated" in loaded.stdout
    assert (same.returncode, same.stdout.splitlines()[0]) == (0, "payments: table and shadow are equal, 3 rows")
    assert other.returncode == 2 and "1 different" in other.stdout and "payer ***" in other.stdout
    assert promoted.returncode == 0 and "loaded 1 of 1 partition by this code; table and shadow are equal" in (
        promoted.stdout
    )
    assert left == []
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "payments: table and shadow are equal, 3 rows")
    assert removed.stdout == "payments: removed the shadow\n"
    payers = {row["payment_id"]: row["payer"] for row in DeltaTable(lake).to_pyarrow_table().to_pylist()}
    assert payers == {1: "A", 2: "Ada", 900: "Ada"}

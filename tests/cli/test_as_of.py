"""``incload as-of``, as a person runs it."""

import json
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false", "COLUMNS": "160"}
TABLE = "my_lake/tables/payments.py"
FILE = ".incload/landing/payments/2026-01-05.csv"
HEADER = "payment_id,payer,amount,updated_at,state\n"


@pytest.mark.slow
def test_the_rows_of_a_time_as_they_were_known_at_another_are_shown_masked(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    declared = readme_files()[TABLE].replace("import Changes,", "import Changes, History,")
    assert "write=" not in declared
    clone.write(
        TABLE, declared.replace("@incremental_asset(\n", "@incremental_asset(\n    write=History(known=True),\n")
    )
    for hour, amount in ((9, "10.00"), (10, "11.00")):
        clone.write(FILE, f"{HEADER}1,Ada,{amount},2026-01-05T{hour:02d}:00:00Z,booked\n")
        assert clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN).returncode == 0
    landings = json.loads(clone.incload("history", "payments", "--json", **PLAIN).stdout)
    between = min(landing["ended_at"] for landing in landings)

    now = clone.incload("as-of", "payments", "--json", **PLAIN)
    then = clone.incload("as-of", "payments", "--known", between, "--json", **PLAIN)
    valid = clone.incload("as-of", "payments", "--valid", "2026-01-05T09:30", "--known", between, **PLAIN)
    before = clone.incload("as-of", "payments", "--valid", "2026-01-05T09:30", **PLAIN)
    wrong = clone.incload("as-of", "payments", "--known", "yesterday", **PLAIN)

    assert [(row["payer"], row["amount"]) for row in json.loads(now.stdout)] == [("***", "11.00")]
    assert [(row["payer"], row["amount"]) for row in json.loads(then.stdout)] == [("***", "10.00")]
    assert "10.00" in valid.stdout and "payments: 1 row\n" in valid.stdout and "Ada" not in valid.stdout
    assert before.stdout.endswith("payments: 0 rows\n")
    assert (wrong.returncode, "'yesterday' is neither a time nor a duration" in wrong.stderr) == (1, True)

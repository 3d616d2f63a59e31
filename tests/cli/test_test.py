"""``incload test`` and ``incload explain``, run as a person runs them, on the README's table and without Spark."""

from pathlib import Path

import pytest

from tests.support.documents import documented_block
from tests.support.project_copy import Clone, readme_files

WRONG = """windows:
  - window: 2026-01-05
    rows: |
      payment_id,payer,amount,updated_at,state
      1,Ada,10.00,2026-01-05T09:00:00Z,booked
      2,Grace,21.50,2026-01-05T11:00:00Z,booked
expected: |
  payment_id,payer,amount
  1,Ada,11.00
  2,Grace,21.50
"""


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    made = Clone.of(tmp_path, "sc://localhost:1")
    for path, content in readme_files().items():
        made.write(path, content)
    made.write("my_lake/tables/tests/payments/newest_wins.yaml", documented_block("yaml", "Edsger"))
    return made


@pytest.mark.slow
def test_a_case_that_differs_fails_with_the_cells_and_the_documented_one_passes(clone: Clone) -> None:
    clone.write("my_lake/tables/tests/payments/wrong.yaml", WRONG)
    done = clone.incload("test", "payments", INCLOAD_SAMPLES="false")
    assert done.stderr == ""
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "✓ tables/tests/payments/newest_wins.yaml  2 rows, 1 rejected  (without Spark)",
        "✗ tables/tests/payments/wrong.yaml  2 rows, 0 rejected  (without Spark)",
        "table    payment_id payer amount",
        "expected 1          Ada   [11.00]",
        "found    1          Ada   [10.00]",
        "2 cases, 1 failed",
    ]
    assert done.returncode == 1


@pytest.mark.slow
def test_a_declaration_is_explained_with_its_checks_and_their_times(clone: Clone) -> None:
    done = clone.incload("explain", "payments", INCLOAD_SAMPLES="false")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "payments: One row per payment, as last changed."
    assert [line for line in lines if line and not line.startswith("- ")][1:] == [
        "Read", "Kept", "Rejected", "Stopped", "Afterwards", "Checked",
    ]  # fmt: skip
    assert "- A change with state = 'void' deletes the row." in lines
    assert "- A row is rejected if a value breaks a check: amount: not > 0." in lines
    assert (
        "- reconciliation (40 4 * * * UTC): Source, change log and table agree when the source is read "
        "again; on demand "
        "or schedule, not with loads." in lines
    )
    assert lines[-1] == "- The sensor watch_sources requests the loads; a run that loads evaluates the checks, too."

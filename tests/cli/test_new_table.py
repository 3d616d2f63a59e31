"""``incload new TABLE --from …``, in a project of one's own, up to the first green partition."""

import re
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

DATA = ".incload/landing/payments/2026-01-05.csv"


@pytest.fixture
def project(tmp_path: Path, spark_url: str) -> Clone:
    """A project of one's own without a table, and the README's file of payments."""
    project = Clone.of(tmp_path, spark_url)
    project.write(DATA, readme_files()[DATA])
    return project


@pytest.mark.slow
def test_a_table_is_inferred_planned_and_loaded_by_the_command_that_is_printed(project: Clone) -> None:
    made = project.incload("new", "payments", "--from", ".incload/landing/payments")
    [command] = re.findall("Load it: incload (.*)", made.stdout)
    loaded = project.incload(*command.split())
    again = project.incload("new", "payments", "--from", DATA)
    refused = project.incload("new", "my-payments", "--from", DATA)

    assert made.returncode == 0, made.stderr
    assert "Wrote my_lake/tables/payments.py: 5 columns, from 6 rows; key payment_id (4 keys in 6 rows" in made.stdout
    assert "~ 2026-01-05  6 read: 4 inserted, 2 stale\n" in made.stdout
    assert command == "load payments --all-missing"
    assert loaded.returncode == 0 and "6 read, 4 inserted, 2 stale" in loaded.stdout
    assert again.returncode == 1 and "Rule: a declaration that is there is never replaced" in again.stderr
    assert refused.returncode == 1 and "'my-payments' is no name of a table" in refused.stderr

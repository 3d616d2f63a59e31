"""``incload changes`` in a project whose table was written before: no Spark is there."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.support.project_copy import Clone, readme_files

RUN = "2f9e1c1e-1111-4222-8333-444455556666"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "sc://127.0.0.1:9")
    declared = readme_files()["my_lake/tables/payments.py"]
    clone.write("my_lake/tables/payments.py", declared)
    columns = pa.schema(
        [
            ("payment_id", pa.int64()),
            ("payer", pa.string()),
            ("amount", pa.decimal128(12, 2)),
            ("updated_at", pa.timestamp("us", "UTC")),
        ]
    )
    at = datetime(2026, 1, 5, 9, tzinfo=UTC)
    rows = [{"payment_id": number, "payer": "Grace", "amount": Decimal("20.50"), "updated_at": at} for number in (1, 2)]
    uri = str(clone.root / ".incload" / "lake" / "payments")
    note = CommitProperties(custom_metadata={"userMetadata": f"merged 2026-01-05, run {RUN}"})
    write_deltalake(
        uri, pa.Table.from_pylist(rows, columns), configuration={"delta.enableChangeDataFeed": "true"},
    )  # fmt: skip
    DeltaTable(uri).update({"amount": "21.50"}, predicate="payment_id = 1", commit_properties=note)
    DeltaTable(uri).delete("payment_id = 2")
    yield clone


def changes(clone: Clone, *arguments: str) -> tuple[int, str, str]:
    done = clone.incload("changes", "payments", *arguments, INCLOAD_SAMPLES="false")
    return done.returncode, done.stdout, done.stderr


def test_commits_are_counted_and_rows_shown_with_personal_values_masked(clone: Clone) -> None:
    code, told, wrong = changes(clone, "--since", RUN[:8])
    assert (code, wrong) == (0, "")
    lines = told.splitlines()
    assert "2026-01-05" in told and RUN[:8] in told and "Grace" not in told
    assert lines[-1] == "payments: versions 1 to 2, 2 commits with 0 inserts, 1 update, 1 delete."
    shown = [line.partition(":")[0] for line in lines if line.startswith(("1 ", "2 "))]
    assert [one for one in shown if "_" in one or "delete" in one] == [
        "1 update_preimage",
        "1 update_postimage",
        "2 delete",
    ]
    code, told, _ = changes(clone, "--since", "0", "--limit", "3", "--json")
    found = json.loads(told)
    assert (found["since"], found["until"], len(found["commits"]), len(found["rows"])) == (0, 2, 3, 3)
    assert {row["values"]["payer"] for row in found["rows"]} == {"***"}


def test_the_rows_that_are_not_shown_are_counted(clone: Clone) -> None:
    _, told, _ = changes(clone, "--since", "0", "--limit", "1")
    assert "1 of 5 rows of the feed are shown; --limit shows more." in told


def test_what_names_no_commit_is_an_error(clone: Clone) -> None:
    for since in ("", RUN[:7], "last week", "²"):
        code, told, wrong = changes(clone, "--since", since)
        assert (code, told) == (1, "") and "is no version, no time and no duration" in wrong
    code, told, wrong = changes(clone, "--since", "7")
    assert (code, told) == (1, "")
    assert "payments has no version 7" in wrong and "Remedy: incload changes payments --since 2" in wrong

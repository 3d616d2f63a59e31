"""``incload trace`` in a project whose log was written before: no Spark is there."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.project_copy import Clone, readme_files

RUN = "2f9e1c1e-1111-4222-8333-444455556666"
_SOURCE = pa.struct([("file", pa.string()), ("block", pa.int64()), ("row", pa.int64())])
_RECORD = pa.struct(
    [
        *((name, pa.string()) for name in ("fingerprint", "position", "summary", "code_version", "run_id")),
        *((name, pa.int64()) for name in ("landing", "rows_read", "rejected", "replaced")),
        ("landed_at", pa.timestamp("us", "UTC")),
    ]
)
_COLUMNS = [
    ("payment_id", pa.int64()),
    ("payer", pa.string()),
    ("amount", pa.decimal128(12, 2)),
    ("updated_at", pa.timestamp("us", "UTC")),
]
_LOG = pa.schema(
    [
        *_COLUMNS,
        *((name, pa.string()) for name in ("_window", "_kind")),
        ("_hash", pa.int64()),
        ("_source", _SOURCE),
        ("_reasons", pa.list_(pa.string())),
        ("_control", _RECORD),
    ]
)


def payment(amount: str | None, hour: int) -> dict[str, Any]:
    at = datetime(2026, 1, 5, hour, tzinfo=UTC)
    return {"payment_id": 2, "payer": "Grace", "amount": amount and Decimal(amount), "updated_at": at}


def logged(kind: str, row: dict[str, Any], line: int, **more: Any) -> dict[str, Any]:
    place = {"file": "payments/2026-01-05.csv", "block": 0, "row": line}
    return {**row, "_window": "2026-01-05", "_kind": kind, "_hash": line, "_source": place, **more}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "sc://127.0.0.1:9")
    clone.write("my_lake/tables/payments.py", readme_files()["my_lake/tables/payments.py"])
    record = {
        "fingerprint": "f", "position": "{}", "summary": "", "code_version": "another", "run_id": RUN, "landing": 3,
        "rows_read": 3, "rejected": 1, "replaced": 0, "landed_at": datetime(2026, 1, 6, tzinfo=UTC),
    }  # fmt: skip
    rows = [
        logged("upsert", payment("20.50", 9), 2),
        logged("upsert", payment("21.50", 11), 3),
        logged("rejected", payment(None, 12), 4, _reasons=["amount: 'free' is not decimal(12,2)"]),
        {"_window": "2026-01-05", "_kind": "control", "_control": record},
    ]
    lake = clone.root / ".incload" / "lake"
    where = ["_window", "_kind"]
    write_deltalake(str(lake / "_changes" / "payments"), pa.Table.from_pylist(rows, _LOG), partition_by=where)
    write_deltalake(str(lake / "payments"), pa.Table.from_pylist([payment("21.50", 11)], pa.schema(_COLUMNS)))
    yield clone


def trace(clone: Clone, *arguments: str) -> tuple[int, str, str]:
    done = clone.incload("trace", "payments", *arguments, INCLOAD_SAMPLES="false")
    return done.returncode, done.stdout, done.stderr


def test_every_change_is_told_with_its_place_its_run_and_what_became_of_it(clone: Clone) -> None:
    code, told, wrong = trace(clone, "payment_id=2")
    lines = told.splitlines()
    assert (code, wrong) == (0, "")
    assert lines[0].split() == ["#", "change", "updated_at", "window", "from", "landed", "became", "why"]
    assert lines[1].split()[:2] == ["1", "upsert"] and "superseded by 2 a newer change came after it" in lines[1]
    assert "payments/2026-01-05.csv row 3" in lines[2] and "in effect" in lines[2]
    assert "rejected" in lines[3] and "amount: 'free' is not decimal(12,2)" in lines[3]
    assert f"1: landing 3 of its window, run {RUN}, trace {RUN.replace('-', '')}" in lines
    assert "note: some changes were validated by other versions of the code" in told
    assert lines[-1] == "payments payment_id=2: the table has the row, by change 2."
    assert "Grace" not in told and "21.50" not in told, "values are shown only on request"


def test_values_are_shown_on_request_without_personal_ones(clone: Clone) -> None:
    code, told, _ = trace(clone, "payment_id=2", "--values", "--json")
    found = json.loads(told)
    assert code == 0 and found["agrees"] is True
    assert found["present"] == [
        {"payment_id": 2, "payer": "***", "amount": "21.50", "updated_at": "2026-01-05T11:00:00+00:00"}
    ]
    assert [(c["fate"], c["by"], c["row"], c["trace_id"]) for c in found["changes"]] == [
        ("superseded", 2, 2, RUN.replace("-", "")),
        ("in effect", None, 3, RUN.replace("-", "")),
        ("rejected", None, 4, RUN.replace("-", "")),
    ]
    assert found["changes"][0]["values"]["payer"] == "***"


def test_a_wrong_key_is_refused_with_what_to_write(clone: Clone) -> None:
    code, told, wrong = trace(clone, "payer=Grace")
    assert (code, told) == (1, "")
    assert "'payer' is no column of the key. Rule: the key's columns are payment_id." in wrong
    assert "Remedy: write incload trace payments payment_id=VALUE" in wrong

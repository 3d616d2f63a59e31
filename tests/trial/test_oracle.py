"""The oracle itself, on cases small enough to see."""

from typing import Any

from hypothesis import given

from incload_assets.trial.oracle import fold
from tests.support.change_streams import change_streams


def row(at: int | None, value: str = "", op: str = "u") -> dict[str, Any]:
    return {"id": 1, "at": at, "value": value, "op": op}


def folded(*rows: dict[str, Any]) -> Any:
    table = fold(rows, ["id"], ["at"], lambda r: r["op"] == "d", lambda r: r["value"])
    return table.get((1,))


def test_the_newest_change_wins_whatever_the_order() -> None:
    assert folded(row(1, "a"), row(3, "c"), row(2, "b")) == row(3, "c")


def test_null_is_older_than_any_sequence() -> None:
    assert folded(row(0, "a"), row(None, "b")) == row(0, "a")
    assert folded(row(None, "a"), row(None, "", "d")) is None


def test_at_an_equal_sequence_a_delete_is_newer_and_then_the_greater_hash() -> None:
    assert folded(row(2, "", "d"), row(2, "z")) is None
    assert folded(row(2, "b"), row(2, "a"), row(1, "", "d")) == row(2, "b")


def test_a_delete_then_an_older_update_stays_deleted_and_a_newer_one_revives() -> None:
    assert folded(row(5, "a"), row(7, "", "d"), row(6, "b")) is None
    assert folded(row(5, "a"), row(7, "", "d"), row(8, "b")) == row(8, "b")


@given(change_streams())
def test_batching_and_repetition_do_not_matter(stream: list[list[dict[str, Any]]]) -> None:
    rows = [change for batch in stream for change in batch]
    by = (["id"], ["at"], lambda r: r["op"] == "d", lambda r: (r["value"] is not None, r["value"] or ""))
    assert fold(rows, *by) == fold([*reversed(rows), *rows], *by)

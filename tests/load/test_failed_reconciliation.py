"""A load whose table differs from its log at the end is undone or held, as its table declares."""

from pathlib import Path
from typing import Any

import pytest

from incload_assets.declaration.table import FailedReconciliation
from incload_assets.load.load import LoadReport, load_window
from incload_assets.platform.errors import ReconciliationFailed
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import audit_uri
from tests.support.guest_table import House, guest, house, key

FAILS = ReconciliationFailed("guests 2026-01-01: 1 key differs")


def merged_and_failed(*args: Any, **options: Any) -> LoadReport:
    """A load whose rows are changed by another writer between its merge and its reconciliation."""
    load_window(*args, **options)
    raise FAILS


def failed_before_it_landed(*_: Any, **__: Any) -> LoadReport:
    raise FAILS


def rooms(h: House) -> dict[str, int]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return {row["id"]: row["room"] for row in delta.to_pyarrow_table().to_pylist()}


def status(h: House) -> str:
    return next(window.status for window in h.look().progress if window.key == key(1))


def audited(h: House) -> list[tuple[str, str, str]]:
    delta = h.lake.delta(audit_uri(h.lake))
    rows = [] if delta is None else sorted(delta.to_pyarrow_table().to_pylist(), key=lambda row: row["number"])
    return [(row["action"], row["actor"], row["because"]) for row in rows]


@pytest.mark.parametrize(
    ("declared", "load", "done", "after"),
    [
        ("undo", merged_and_failed, "undo", {"1": 1}),
        ("hold", merged_and_failed, "hold", {"1": 9, "2": 1}),
        ("undo", failed_before_it_landed, None, {"1": 1}),
    ],
)
def test_a_load_that_does_not_reconcile_is_undone_or_held_as_declared(
    tmp_path: Path,
    spark_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    declared: FailedReconciliation,
    load: Any,
    done: str | None,
    after: dict[str, int],
) -> None:
    with house(tmp_path, spark_settings, on_failed_reconciliation=declared) as h:
        h.deliver(1, guest("1"))
        assert h.load(1) == [True]
        h.deliver(1, guest("1", room=9, seq=2), guest("2"))
        with monkeypatch.context() as patch:
            patch.setattr("incload_assets.assets.run.load_window", load)
            assert h.load(1) == [False]
        assert rooms(h) == after
        assert audited(h) == ([(done, "the reconciliation", FAILS.problem)] if done else [])
        assert status(h) == ("held" if done else "failed")
        if done:
            assert h.load(1) == [False], "a load by hand is refused"
        h.deliver(1, guest("1", room=3, seq=3))
        assert h.load(1) == [True]
        assert (status(h), rooms(h)) == ("loaded", {"1": 3})


def test_without_a_declaration_nothing_more_is_done(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        monkeypatch.setattr("incload_assets.assets.run.load_window", merged_and_failed)
        assert h.load(1) == [False]
        assert (status(h), audited(h)) == ("failed", [])

"""The check of the source's schema: unknown fields and refused types, since when, and never a value."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Evolution, Quarantine
from incload_assets.checks import schema as module
from incload_assets.checks.schema import schema
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, key


def fields(result: dg.AssetCheckResult) -> list[dict[str, Any]]:
    table = result.metadata["fields"]
    assert isinstance(table, dg.TableMetadataValue)
    return [dict(record.data) for record in table.records]


def test_fields_and_types_are_told_since_when_and_in_how_many_rows(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, quarantine=Quarantine(max_share=0.8)) as h:
        empty = schema(h.look())
        assert (empty.passed, empty.description) == (True, "Nothing was loaded yet.")
        h.deliver(1, guest("1"), guest("2", room="attic"))
        h.deliver(2, guest("3", day=2) | {"meal": "breakfast"}, guest("4", day=2) | {"utm_a": 1, "meal": "none"})
        assert h.load(1) == [True]
        by_type = schema(h.look())
        assert (by_type.passed, by_type.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert by_type.description == (
            "Values that a type refuses: 'room' (1 row since 2026-01-01); these rows are in quarantine. What to do: "
            "see the lines below, and ask the source's owner what changed."
        )
        assert h.load(2) == [True]
        both = schema(h.look())
        assert (both.description or "").startswith(
            "Guest does not declare 'meal' (2 rows since 2026-01-02), 'utm_a' (1 row since 2026-01-02). The values are "
        )
        landed = h.look().records[key(2)].landed_at
        assert fields(both)[0] == {
            "field": "meal", "what": "unknown field", "rows": 2, "since": key(2),
            "landed (UTC)": f"{landed:%Y-%m-%d %H:%M}", "last": key(2),
            "line for the contract": "meal: T.StringType = pa.Field(nullable=True)",
        }  # fmt: skip
        assert {row["field"] for row in fields(both)} == {"meal", "utm_a", "room"}
        assert not any(value in repr(both) for value in ("breakfast", "attic"))


def test_ignored_fields_do_not_warn(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, evolution=Evolution(ignore=["utm_*"])) as h:
        h.deliver(1, guest("1") | {"utm_a": 1})
        assert h.load(1) == [True]
        found = schema(h.look())
        assert (found.passed, found.description) == (
            True,
            "Every field that the source sends is declared by Guest, or used by a condition.",
        )
        assert found.metadata == {"unknown_fields": dg.MetadataValue.int(0), "refused_types": dg.MetadataValue.int(0)}


def test_a_refused_value_of_an_old_window_is_listed_and_does_not_warn_any_more(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT", 1)
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2", room="attic"))
        h.deliver(2, guest("3", day=2))
        assert h.load(1, 2) == [True, True]
        found = schema(h.look())
        assert (found.passed, [row["field"] for row in fields(found)]) == (True, ["room"])


def test_windows_that_one_evaluation_leaves_are_told_and_read_by_the_next(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WINDOWS", 1)
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1") | {"meal": "breakfast"})
        h.deliver(2, guest("3", day=2))
        assert h.load(1, 2) == [True, True]
        first, second = schema(h.look()), schema(h.look())
        assert (first.passed, first.metadata["windows_not_read"].value) == (True, 1)
        assert (first.description or "").endswith(
            "Not read yet: 1 window of former loads; the next evaluations read them."
        )
        assert (second.passed, "windows_not_read" in second.metadata) == (False, False)

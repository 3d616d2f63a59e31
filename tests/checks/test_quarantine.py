"""Quarantine: how many rows, why, where; never what was in them."""

from pathlib import Path

import dagster as dg

from incload_assets.assets import Quarantine
from incload_assets.checks.quarantine import quarantine
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, key


def records(result: dg.AssetCheckResult, name: str) -> list[dict[str, object]]:
    table = result.metadata[name]
    assert isinstance(table, dg.TableMetadataValue)
    return [dict(record.data) for record in table.records]


def test_rejected_rows_are_counted_by_reason_and_place(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, quarantine=Quarantine(max_share=0.8)) as h:
        assert quarantine(h.look()).description == "No window is ingested yet."
        good = [guest(str(n)) for n in range(1, 4)]
        h.deliver(1, *good, guest("a", room=0))
        h.deliver(2, *good, guest("b", room=-1, day=2), guest("c", room="attic", day=2), guest("d", day=2, seq=2))
        assert h.load(1, 2) == [True, True]
        calm = quarantine(h.look())
        assert (calm.passed, calm.description) == (
            True,
            "3 rows of 10 (30.0%) in quarantine in the 2 windows ingested last.",
        )
        assert records(calm, "windows") == [
            {"window": key(1), "rows read": 4, "rejected": 1},
            {"window": key(2), "rows read": 6, "rejected": 2},
        ]
        reasons = {(row["reason"], row["rows"]) for row in records(calm, "reasons")}
        assert reasons == {("room: not >= 1", 2), ("room: is not bigint", 1)}
        assert all("a.json row" in str(row["for example"]) for row in records(calm, "reasons"))


def test_a_share_near_the_threshold_warns_and_one_above_it_is_an_error(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings, quarantine=Quarantine(max_share=0.5)) as h:
        h.deliver(1, guest("1"), guest("2"), guest("3", room=0))
        assert h.load(1) == [True]
        near = quarantine(h.look())
        assert (near.passed, near.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert (near.description or "").startswith("2026-01-01 came near the threshold at which a load stops.")
        h.deliver(2, guest("4", day=2), guest("5", room=0, day=2), guest("6", room=0, day=2))
        assert h.load(2) == [False]
        stopped = quarantine(h.look())
        assert (stopped.passed, stopped.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert (stopped.description or "").startswith("Loads of 2026-01-02 stopped: too many rows break the contract;")


def test_nothing_of_a_personal_column_is_shown(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, quarantine=Quarantine(max_share=1)) as h:
        h.deliver(1, guest("1", "Ada Lovelace"), guest("2", "Ada Lovelace"), guest("3", "Emmy Noether", room=0))
        assert h.load(1) == [True]
        result = quarantine(h.look())
        assert result.metadata["rejected_rows"].value == 3
        assert "Ada" not in repr(result)
        assert "Emmy" not in repr(result)

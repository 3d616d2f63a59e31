"""Gaps: holes between the first loaded window and now."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from incload_assets.checks.gaps import gaps
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, key


def shown(result: dg.AssetCheckResult) -> list[tuple[object, ...]]:
    """The rows of the table of windows, without the run."""
    table = result.metadata["windows"]
    assert isinstance(table, dg.TableMetadataValue)
    return [(r.data["window"], r.data["status"], r.data["why"]) for r in table.records]


def test_windows_that_the_source_holds_or_that_are_due_are_gaps(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2, 4):
            h.deliver(number, guest("1", day=number))
        h.checkpoint(2)
        found = gaps(h.look())
        assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert shown(found) == [
            (key(3), "waiting", "it is over, and the source holds nothing for it"),
            (key(4), "missing", "the source holds it, but it was never loaded"),
        ]
        assert found.description == (
            "1 window at the source but not loaded: 2026-01-04. What to do: materialize them. 1 window ended without "
            "data at the source: 2026-01-03. What to do: ask the provider of the data; if a window may be empty, "
            'declare absent="empty". The source also holds 1 window before the first loaded one.'
        )
        assert {name: found.metadata[name].value for name in ("gaps", "failed", "held_before_first_loaded")} == {
            "gaps": 2,
            "failed": 0,
            "held_before_first_loaded": 1,
        }
        h.deliver(3, guest("1", day=3))
        h.checkpoint(3, 4)
        closed = gaps(h.look())
        assert (closed.passed, closed.description) == (
            True,
            "No gaps since 2026-01-02, the first loaded partition. The source also holds 1 window before the first "
            "loaded one.",
        )


def test_a_window_is_no_gap_before_it_is_due(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(2, guest("1", day=2))
        h.checkpoint(1)
        assert gaps(h.look(datetime(2026, 1, 3, 5, 59, tzinfo=UTC))).passed is True
        assert gaps(h.look(datetime(2026, 1, 3, 6, 0, tzinfo=UTC))).passed is False


def test_a_failed_window_is_listed_with_its_cause_and_run(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1", room=0))
        assert h.load(1, 2) == [False, False]
        found = gaps(h.look())
        assert shown(found) == [(key(1), "failed", "contract"), (key(2), "failed", "missing")]
        runs = {run.tags["dagster/partition"]: run.run_id for run in h.instance.get_runs()}
        table = found.metadata["windows"]
        assert isinstance(table, dg.TableMetadataValue)
        assert [record.data["run"] for record in table.records] == [runs[key(1)], runs[key(2)]]
        assert (found.description or "").startswith("2 partitions failed (contract, missing): 2026-01-01, 2026-01-02.")


def test_nothing_loaded_has_no_gaps(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        empty = gaps(h.look())
        assert (empty.passed, empty.description) == (True, "Nothing is loaded yet, so there are no gaps.")

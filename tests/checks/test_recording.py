"""What is recorded of checks outside of loads."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.checks import LIGHT_CHECKS, RECORD_AGAIN, checks_for, last_results, record_what_changed, recording
from incload_assets.checks.observation import Observation
from incload_assets.declaration.source import Clock, RetentionMargin
from incload_assets.platform.settings import Settings
from incload_assets.progress.checkpoint import DATA_VERSION_TAG
from incload_assets.progress.progress import SourceState
from incload_assets.progress.verdicts import as_seen, evaluation_of
from incload_assets.trial.literal_source import LiteralSource
from tests.support.guest_table import NOON, House, guest, house, key
from tests.support.tables import make

ALL = ["freshness", "gaps", "volume", "quarantine", "source_files", "rollback", "skew"]
"""The light checks that a made-up log is enough for; ``schema`` reads rows."""
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
DUE = datetime(2026, 1, 5, 6, tzinfo=UTC)
"""When the fourth day is due."""


def recorded(h: House, at: datetime) -> list[str]:
    """The names of what one pass at an instant records."""
    return changed(h, h.look(at))


def changed(h: House, seen: Observation) -> list[str]:
    """The names of what a pass records of an observation."""
    last = last_results(h.instance, [h.table])[h.table.name]
    return [name for name in record_what_changed(h.instance, seen, last).names if name in ALL]


def rows(h: House) -> int:
    """The number of results that Dagster has."""
    history = h.instance.event_log_storage.get_asset_check_execution_history
    return sum(len(history(dg.AssetCheckKey(h.table.key, name), limit=100)) for name in LIGHT_CHECKS)


def test_a_quiet_table_writes_again_after_six_hours_and_a_change_at_once(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2, 3):
            h.deliver(number, guest("1", day=number))
        h.checkpoint(1, 2, 3)
        begin = DUE - 5 * HOUR
        assert recorded(h, begin) == ALL
        assert recorded(h, begin + HOUR) == []
        # freshness turns red when it is time, and says why it stays red; how late it is is no news
        assert recorded(h, DUE - SECOND) == []
        assert recorded(h, DUE) == ["freshness", "gaps"]
        assert recorded(h, begin + 6 * HOUR - SECOND) == []
        assert recorded(h, begin + 6 * HOUR) == ALL[2:]
        h.deliver(4, guest("1", day=4))
        assert recorded(h, DUE + 2 * HOUR) == ["freshness", "gaps"]
        h.checkpoint(4)
        assert recorded(h, DUE + 3 * HOUR) == [name for name in ALL if name != "skew"]  # it finds as little as before
        assert rows(h) == 7 + 2 + 5 + 2 + 6


def test_of_results_that_say_the_same_the_first_and_the_last_are_kept_so_that_history_does_not_grow(
    tmp_path: Path, spark_settings: Settings
) -> None:
    (tmp_path / "home").mkdir()

    def events() -> list[int]:
        found = []
        for file in ("index.db", ".db"):
            with sqlite3.connect(tmp_path / "home" / "history" / "runs" / file) as connection:
                found += connection.execute(
                    "SELECT count(*) FROM event_logs WHERE dagster_event_type = 'ASSET_CHECK_EVALUATION'"
                ).fetchone()
        return found

    with house(tmp_path, spark_settings, instance=dg.DagsterInstance.local_temp(str(tmp_path / "home"))) as h:
        h.deliver(1, guest("1"))
        begin, check = datetime(2026, 1, 2, tzinfo=UTC), dg.AssetCheckKey(h.table.key, "source_files")
        assert recorded(h, begin) == ALL
        h.checkpoint(1)
        for number in range(1, 12):
            recorded(h, begin + number * RECORD_AGAIN)
        history = h.instance.event_log_storage.get_asset_check_execution_history(check, limit=100)
        metadata = [record.evaluation.metadata for record in history if record.evaluation]
        assert [str(one["evaluated_at"].value)[:13] for one in metadata] == [
            "2026-01-04T18", "2026-01-02T06", "2026-01-02T00"
        ]  # fmt: skip
        assert metadata[0]["unchanged_since"].value == "2026-01-02T06:00:00+00:00"
        assert "unchanged_since" not in metadata[1]
        assert events() == [rows(h), rows(h)]


def test_a_source_that_is_silent_in_other_words_is_no_news(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.checkpoint(1)
        assert recorded(h, NOON) == ALL
        silent = [replace(h.look(), trouble=f"the source refused request {number}") for number in (1, 2)]
        assert [changed(h, seen) for seen in silent] == [ALL, []]


def test_a_result_of_a_load_that_ended_meanwhile_stays_the_last(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        check, before = dg.AssetCheckKey(h.table.key, "volume"), last_results(h.instance, [h.table])[h.table.name]
        seen = h.look()
        newer = as_seen(LIGHT_CHECKS["volume"].result(seen)._replace(passed=False), NOON + SECOND)
        h.instance.report_runless_asset_event(evaluation_of(check, newer))
        assert "volume" not in record_what_changed(h.instance, seen, before).names
        [last] = h.instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
        assert last.evaluation is not None and last.evaluation.passed is False


def test_a_result_that_a_failed_run_hides_is_recorded_again(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        assert recorded(h, NOON) == ALL

        @dg.asset(name="guests")
        def broken() -> None:
            raise RuntimeError("the disk is full")

        dg.materialize([broken, *checks_for(h.table)], instance=h.instance, resources=h.resources, raise_on_error=False)
        assert recorded(h, NOON + HOUR) == ALL
        assert recorded(h, NOON + 2 * HOUR) == []


def test_a_rollback_that_a_load_has_left_is_a_new_finding(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.checkpoint(1)  # of a table that is gone
        assert recorded(h, NOON) == ALL
        assert recorded(h, NOON + HOUR) == []
        position = h.look().state.positions[key(1)].fingerprint
        h.instance.report_runless_asset_event(
            dg.AssetMaterialization(
                h.table.key, partition=key(1), metadata={"delta_version": 7}, tags={DATA_VERSION_TAG: position}
            )
        )
        assert recorded(h, NOON + 2 * HOUR) == ["rollback"]
        assert recorded(h, NOON + 3 * HOUR) == []


def test_a_check_that_raises_hides_no_other(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(_: Observation) -> dg.AssetCheckResult:
        raise OSError("the disk is gone")

    with house(tmp_path, spark_settings) as h:
        monkeypatch.setitem(LIGHT_CHECKS, "volume", replace(LIGHT_CHECKS["volume"], evaluate=raises))
        heard: list[str] = []
        found = record_what_changed(h.instance, h.look(), {}, lambda told, **_: heard.append(told))
        assert found.names == ["freshness", "gaps", "quarantine", "schema", "source_files", "rollback", "skew"]
        assert found.reasons == {"volume": heard[0]}
        assert "guests: check volume" in heard[0] and "the disk is gone" in heard[0]


class Moving(LiteralSource):
    """Its clock and its log differ at each look."""

    has_row_times = expires_rows = True
    skews: Sequence[timedelta] = ()
    shares: Sequence[float] = ()

    def clocks(self, table: str) -> list[Clock]:
        return [Clock(skew, timedelta(minutes=5)) for skew in self.skews]

    def headroom(self, *_: object) -> list[RetentionMargin]:
        return [RetentionMargin(f"{share:%} are left", share, None, NOON, 10_000_000) for share in self.shares]


@pytest.mark.parametrize(
    ("name", "attribute", "before", "after", "news"),
    [
        ("clock", "skews", SECOND, 2 * SECOND, False),
        ("clock", "skews", SECOND, timedelta(minutes=6), True),
        ("headroom", "shares", 0.95, 0.52, False),
        ("headroom", "shares", 0.249, 0.201, False),
        ("headroom", "shares", 0.249, 0.199, True),
        ("headroom", "shares", 0.11, 0.09, True),
    ],
)
def test_only_a_number_that_matters_is_news(
    tmp_path: Path, name: str, attribute: str, before: object, after: object, news: bool
) -> None:
    def result(value: object) -> dg.AssetCheckResult:
        source = Moving({})
        object.__setattr__(source, attribute, [value])
        table = make(None, tmp_path, source=source).table  # type: ignore[arg-type]
        return LIGHT_CHECKS[name].result(Observation(table, None, instance, NOON, SourceState([], {}, {}), []))  # type: ignore[arg-type]

    with dg.DagsterInstance.ephemeral() as instance:
        assert recording.is_news(result(after), (NOON, result(before))) is news

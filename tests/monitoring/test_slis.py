"""The indicators of a month that was worked out by hand, and of tables that are unusual."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Freshness
from incload_assets.declaration import window
from incload_assets.declaration.slo import Slo
from incload_assets.declaration.table import Table
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.facts import Check, Facts, TableFacts, Watch, checks_at, gather
from incload_assets.monitoring.metrics import samples
from incload_assets.monitoring.period import period_of
from incload_assets.monitoring.slis import INDICATORS, Sli, quantile, slis
from incload_assets.platform.lake import Lake
from incload_assets.progress.observed import Observed
from incload_assets.progress.verdicts import evaluation_of
from tests.support.documents import DOCS, Page
from tests.support.literal_loads import at, attempt, facts_of, table_with
from tests.support.load_history import evaluated, seen, tick

THREE_DAYS = dg.TimeWindowPartitionsDefinition(
    start="2026-01-01", fmt="%Y-%m-%d", cron_schedule="0 0 1,4,7,10,13,16,19,22,25,28 * *"
)
"""Ten windows a month; the last one of January has four days."""
SLO = Slo(success=0.6, period=timedelta(days=31))
MONTH = table_with(THREE_DAYS, slo=SLO)
NOW = at("02-01 12:00")
"""The month began on 1 January at 12:00; windows are due six hours after their end."""
DAYS = dg.DailyPartitionsDefinition("2026-01-01")

_EACH = {"seconds": 360.0, "bytes": 100_000_000}
JANUARY: list[LoadRow] = [
    # window, end of the attempt                         waits for  on time  what it is
    attempt(MONTH, "2026-01-01", at("01-02 00:00"), asked=at("01-01 23:58"), **_EACH),  # 120 s; news, window is open
    attempt(MONTH, "2026-01-01", at("01-04 01:00"), **_EACH),  # 3 600 s      yes
    attempt(MONTH, "2026-01-04", at("01-07 00:30"), "failed", error_class="ContractViolation"),
    attempt(MONTH, "2026-01-04", at("01-07 02:00"), "failed", error_class="ContractViolation"),
    attempt(MONTH, "2026-01-04", at("01-07 05:00"), "failed", error_class="SourceUnavailable"),
    attempt(MONTH, "2026-01-04", at("01-07 10:30"), **_EACH),  # 37 800 s     no, was due at 06:00
    attempt(MONTH, "2026-01-07", at("01-10 02:00"), **_EACH),  # 7 200 s      yes
    attempt(MONTH, "2026-01-10", at("01-13 00:30"), **_EACH),  # 1 800 s      yes
    attempt(
        MONTH, "2026-01-07", at("01-15 09:10"), asked=at("01-15 09:00"), inserted=10, updated=5, deleted=1, **_EACH
    ),  # 600 s; news, the window was loaded before: 16 rows and 100 MB are backfilled
    attempt(MONTH, "2026-01-13", at("01-16 03:00"), **_EACH),  # 10 800 s     yes
    attempt(MONTH, "2026-01-16", at("01-20 00:00"), **_EACH),  # 86 400 s     no, no run started until the next day
    attempt(MONTH, "2026-01-19", at("01-22 01:00"), **_EACH),  # 3 600 s      yes
    attempt(MONTH, "2026-01-22", at("01-25 04:00"), **_EACH),  # 14 400 s     yes
    attempt(MONTH, "2026-01-25", at("01-28 05:00"), **_EACH),  # 18 000 s     yes
    # 2026-01-28 was never loaded: it ended on 1 February at 00:00, was due at 06:00, and loads are known until 11:55:
    #                                                         42 900 s     no
]
CHECKS = {
    "reconciliation": Check(
        passed=True, severity="WARN", at=NOW, values={"rows_compared": 40_000, "rows_missing": 10, "seconds": 90.0}
    ),
    "uniqueness": Check(
        passed=False, severity="ERROR", at=NOW, values={"rows": 50_000, "key_repeated": 2, "key_rows_affected": 5}
    ),
    "headroom": Check(passed=True, severity="WARN", at=NOW, values={"share_left": 1.0, "bytes_kept": 2_000_000_000}),
}
SEEN = Observed(
    at="2026-02-01T11:59:00+00:00",
    pending={"2026-01-28": "2026-02-01T11:49:00+00:00"},
    waiting_bytes=4_000,
    waiting_records=70,
)


def indicators(facts: TableFacts, now: datetime = NOW, price: float = 0.0) -> dict[str, Sli]:
    return {sli.name: sli for sli in slis(facts, now, price)}


def month() -> dict[str, Sli]:
    return indicators(facts_of(MONTH, JANUARY, checks=CHECKS, watch=Watch(seen=SEEN)), price=2.0)


def test_every_indicator_of_the_month_is_what_the_hand_found() -> None:
    assert {name: sli.value for name, sli in month().items()} == {
        # 120, 600, 1 800, 3 600, 3 600, 7 200, 10 800, 14 400, 18 000, 37 800, 42 900, 86 400: twelve waits
        "freshness_p50": 7_200,  # the 6th
        "freshness_p95": 86_400,  # 0.95 · 12 = 11.4, so the 12th
        "freshness_p99": 86_400,
        "success": 0.7,  # ten windows were due, three were missed
        "missing": 10 / 40_000,
        "duplicates": 3 / 50_000,  # five rows have two keys, so three of them are too many
        "reconciliation_seconds": 90,
        # failed from 7 January 00:30 to 10:30: 36 000; missed from 19 January 06:00 to midnight: 64 800; missed on
        # 1 February from 06:00 until now: 21 600
        "recovery_seconds": pytest.approx((36_000 + 64_800 + 21_600) / 3),
        "lag_records": 70,
        "lag_seconds": 660,  # seen ten minutes before the last look, which was a minute ago
        "lag_bytes": 4_000,
        "slot_bytes": 2_000_000_000,
        "errors": 3,
        "backfilled_rows": 16,
        "backfilled_bytes": 100_000_000,
        "cost": pytest.approx(2.2),  # eleven loads of six minutes are 1.1 hours, at 2 an hour
        "cost_per_gb": pytest.approx(2.0),  # eleven times 100 MB are 1.1 GB
    }
    assert month()["errors"].parts == {"ContractViolation": 2, "SourceUnavailable": 1}


def test_targets_are_met_or_not_and_leave_a_budget() -> None:
    found = month()
    assert {name: (sli.target, sli.met) for name, sli in found.items() if sli.target is not None} == {
        "freshness_p95": (21_600, False),
        "success": (0.6, True),
        "missing": (0.001, True),
        "duplicates": (0.0001, True),
        "reconciliation_seconds": (7_200, True),
        "recovery_seconds": (3_600, False),
        "lag_records": (1_000_000, True),
        "slot_bytes": (1_000_000_000, False),
    }
    assert {name: sli.budget for name, sli in found.items() if sli.budget is not None} == {
        "freshness_p95": 0.0,  # 3 of 12 waited for more than six hours, which one in twenty may
        "success": pytest.approx(0.25),  # four of ten windows may be missed, three were
        "missing": 0.75,
        "duplicates": pytest.approx(0.4),
    }


def test_the_next_month_is_compared_with_it() -> None:
    now = NOW + timedelta(days=31)
    later = indicators(facts_of(MONTH, JANUARY), now)
    assert all(sli.trend is None for sli in month().values()), "nothing was loaded before the first month"
    assert (later["success"].value, later["success"].before) == (0.0, 0.7)
    assert later["success"].trend == pytest.approx(-0.7)
    assert (later["errors"].value, later["errors"].trend) == (0, -3)
    assert later["cost"].before == 3_960
    assert later["freshness_p95"].before == 86_400
    assert (later["missing"].value, later["missing"].trend) == (None, None)


def test_results_of_checks_are_compared_with_those_of_a_period_ago() -> None:
    now, fewer = NOW + timedelta(days=31), {**CHECKS["reconciliation"].values, "rows_missing": 4}
    newer = {**CHECKS, "reconciliation": replace(CHECKS["reconciliation"], values=fewer)}
    later = {sli.name: sli for sli in slis(facts_of(MONTH, JANUARY, checks=newer), now, earlier=CHECKS)}
    assert (later["missing"].before, later["missing"].trend) == (10 / 40_000, pytest.approx(-6 / 40_000))
    assert later["duplicates"].trend == 0


def test_the_result_of_a_check_at_an_instant_is_the_last_one_until_then() -> None:
    key = dg.AssetCheckKey(MONTH.key, "uniqueness")
    with dg.instance_for_test() as instance:
        instants = []
        for number in range(7):
            other = dg.AssetCheckKey(dg.AssetKey("another"), "uniqueness")
            for of in (key, other):
                metadata = {"rows": dg.MetadataValue.int(number)}
                result = dg.AssetCheckResult(asset_key=of.asset_key, check_name=of.name, passed=True, metadata=metadata)
                instance.report_runless_asset_event(evaluation_of(of, result))
            instants.append(window.now())
        known = [checks_at(instance, MONTH, ["uniqueness"], instant) for instant in instants]
        assert [found["uniqueness"].values["rows"] for found in known] == [*range(7)]
        assert checks_at(instance, MONTH, ["uniqueness"], instants[0] - timedelta(hours=1)) == {}
        assert checks_at(instance, MONTH, ["reconciliation"], instants[-1]) == {}


def test_without_a_price_costs_are_seconds() -> None:
    found = indicators(facts_of(MONTH, JANUARY))
    assert (found["cost"].unit, found["cost"].value) == ("seconds", 3_960)
    assert (found["cost_per_gb"].unit, found["cost_per_gb"].value) == ("seconds/GB", pytest.approx(3_600))


def test_a_table_that_was_never_loaded_has_no_numbers_and_breaks_no_objective() -> None:
    found = indicators(facts_of(MONTH, []))
    assert {name for name, sli in found.items() if sli.value is not None} == {
        "errors", "backfilled_rows", "backfilled_bytes", "cost"
    }  # fmt: skip
    assert [sli.name for sli in found.values() if sli.met is not None] == []
    failed = indicators(facts_of(MONTH, [attempt(MONTH, "2026-01-04", at("01-07 01:00"), "failed")]))
    assert (failed["success"].value, failed["errors"].value) == (None, 1)


def test_a_table_that_is_first_loaded_in_the_middle_of_the_month_is_measured_from_then_on() -> None:
    rows = [row for row in JANUARY if row.ended_at >= at("01-20 00:00")]
    found = indicators(facts_of(MONTH, rows))
    # of the windows of 19, 22, 25 and 28 January the last one was missed; the load of an old window is no news
    assert found["success"].value == 0.75
    assert period_of(facts_of(MONTH, rows), NOW).waits == [3_600, 14_400, 18_000, 42_900]


def test_an_idle_table_whose_empty_windows_are_loaded_keeps_its_objectives() -> None:
    table = table_with(DAYS)
    empty = [attempt(table, f"2026-01-{day:02d}", at(f"01-{day + 1:02d} 00:01")) for day in range(1, 11)]
    found = indicators(
        facts_of(table, empty, watch=Watch(seen=Observed(at="2026-01-11T11:00:00+00:00"))), at("01-11 12:00")
    )
    assert (found["success"].value, found["success"].budget) == (1.0, 1.0)
    assert (found["freshness_p99"].value, found["freshness_p95"].met) == (60, True)
    assert (found["recovery_seconds"].value, found["lag_seconds"].value) == (None, 0)
    assert found["cost_per_gb"].value is None, "nothing was moved"


def test_a_window_that_failed_three_times_is_one_incident_and_three_errors() -> None:
    table = table_with(DAYS)
    rows = [
        attempt(table, "2026-01-01", at("01-02 00:10")),
        *(attempt(table, "2026-01-02", at(f"01-03 0{hour}:00"), "failed", error_class="Killed") for hour in (1, 2, 3)),
        attempt(table, "2026-01-02", at("01-03 03:30")),
    ]
    found = indicators(facts_of(table, rows), at("01-03 12:00"))
    assert (found["recovery_seconds"].value, found["errors"].value) == (2.5 * 3600, 3)
    assert found["success"].value == 1.0, "it was loaded when it was due"


def test_news_that_failed_at_first_have_waited_since_they_were_first_requested() -> None:
    table = table_with(DAYS)
    rows = [
        attempt(table, "2026-01-01", at("01-02 00:10")),
        attempt(table, "2026-01-01", at("01-02 10:01"), "failed", asked=at("01-02 10:00")),
        attempt(table, "2026-01-01", at("01-02 11:00"), asked=at("01-02 10:59")),
    ]
    assert period_of(facts_of(table, rows), at("01-02 12:00")).waits == [600, 3600]


def test_what_a_person_loads_again_is_no_news_but_is_backfilled() -> None:
    table = table_with(DAYS)
    rows = [
        attempt(table, "2026-01-01", at("01-02 00:10")),
        attempt(table, "2026-01-01", at("01-02 11:00"), asked=at("01-02 08:00"), trigger="terminal", inserted=1),
    ]
    period = period_of(facts_of(table, rows), at("01-02 12:00"))
    assert (period.waits, [row.inserted for row in period.backfilled]) == ([600], [1])


def test_a_cancelled_attempt_is_no_error() -> None:
    table = table_with(DAYS)
    rows = [
        attempt(table, "2026-01-01", at("01-02 00:10")),
        attempt(table, "2026-01-02", at("01-03 00:10"), "cancelled"),
    ]
    found = indicators(facts_of(table, rows), at("01-03 04:00"))
    assert (found["errors"].value, found["recovery_seconds"].value) == (0, None)


def test_a_window_that_was_loaded_while_it_was_open_is_fresh_unless_its_source_has_more() -> None:
    table = table_with(DAYS)
    rows = [attempt(table, "2026-01-01", at("01-01 23:59"), asked=at("01-01 23:58"))]
    looked = Observed(at="2026-01-02T11:59:00+00:00")
    behind = replace(looked, pending={"2026-01-01": "2026-01-02T00:05:00+00:00"})
    now = at("01-02 12:00")
    assert period_of(facts_of(table, rows, watch=Watch(seen=looked)), now).waits == [0, 60]
    late = period_of(facts_of(table, rows, watch=Watch(seen=behind)), now)
    assert late.waits == [60, (11 * 60 + 55) * 60], "it counts once, since its end and until loads are known"


def test_news_that_wait_for_longer_than_promised_count_before_they_are_loaded() -> None:
    table = table_with(DAYS)
    rows = [attempt(table, "2026-01-01", at("01-02 00:10"))]
    pending = {"2026-01-01": "2026-01-02T01:00:00+00:00", "2026-01-02": "2026-01-02T11:00:00+00:00"}
    looked = Observed(at="2026-01-02T11:59:00+00:00", pending=pending)
    facts = facts_of(table, rows, watch=Watch(seen=looked))
    assert period_of(facts, at("01-02 12:00")).waits == [600, 11 * 3600]


def test_days_that_are_shorter_or_longer_are_due_after_their_own_end() -> None:
    berlin = dg.DailyPartitionsDefinition("2026-03-01", timezone="Europe/Berlin")
    table = table_with(berlin, freshness=Freshness(within=timedelta(hours=1)))
    rows = [
        attempt(table, "2026-03-27", at("03-27 23:30")),  # ended at 23:00 UTC
        attempt(table, "2026-03-28", at("03-28 23:30")),
        attempt(table, "2026-03-29", at("03-29 22:30")),  # has 23 hours: ended at 22:00 UTC
        attempt(table, "2026-03-30", at("03-30 23:30")),  # ended at 22:00 UTC: half an hour late
    ]
    period = period_of(facts_of(table, rows), at("03-31 12:00"))
    assert [f"{end:%d %H}" for end in period.due] == ["27 23", "28 23", "29 22", "30 22"]
    assert (period.waits, period.missed) == ([1800, 1800, 1800, 5400], 1)
    autumn = dg.DailyPartitionsDefinition("2026-10-01", timezone="Europe/Berlin")
    later = table_with(autumn, freshness=Freshness(within=timedelta(hours=1)))
    loaded = [attempt(later, "2026-10-24", at("10-24 22:30")), attempt(later, "2026-10-25", at("10-25 23:30"))]
    assert period_of(facts_of(later, loaded), at("10-26 12:00")).waits == [1800, 1800]


def test_a_quantile_is_one_of_the_values() -> None:
    assert [quantile([10, 20, 30, 40, 50, 60, 70, 80, 90, 100], share) for share in (0.5, 0.9, 0.95, 1)] == [
        50, 90, 100, 100
    ]  # fmt: skip
    assert quantile([], 0.5) is None


def test_storage_gives_the_same_numbers_as_the_rows(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert LoadsTable(lake).append(JANUARY, after=0)
    with dg.instance_for_test() as instance:
        facts = gather(instance, [MONTH], lake, NOW)
    by_hand = indicators(facts_of(MONTH, JANUARY))
    assert indicators(facts.tables["guests"]) == by_hand
    found = {(s.metric, *s.labels.values()): s.value for s in samples(facts)}
    assert found["incload_missed_windows_total", "guests"] == period_of(facts.tables["guests"], NOW).missed == 3
    assert found["incload_backfilled_rows_total", "guests"] == by_hand["backfilled_rows"].value


def test_a_result_that_is_not_recorded_again_is_as_recent_as_the_last_look_at_the_table(tmp_path: Path) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    with dg.instance_for_test() as instance:
        for check in ("volume", "uniqueness"):  # of which the sensor evaluates the first
            evaluated(instance, MONTH, check)
        tick(instance, MONTH, seen(later))
        checks = gather(instance, [MONTH], Lake(str(tmp_path)), later).tables["guests"].checks
    assert (checks["volume"].at, checks["uniqueness"].at < later) == (later, True)


def metrics_of(table: Table, **more: Any) -> dict[tuple[str, ...], float]:
    facts = Facts(at=NOW, tables={table.name: facts_of(table, JANUARY, **more)}, price_per_hour=2.0)
    return {(s.metric, *list(s.labels.values())[1:]): s.value for s in samples(facts)}


def test_metrics_carry_the_indicators_that_have_targets() -> None:
    found = metrics_of(MONTH, checks=CHECKS, totals={"seconds": 7_200.0})
    of = {metric: {k[1:]: v for k, v in found.items() if k[0] == metric} for metric, *_ in found}
    assert of["incload_freshness_seconds"] == {("0.5",): 7_200, ("0.95",): 86_400, ("0.99",): 86_400}
    assert of["incload_sli"] == {
        ("freshness_p95",): 86_400,
        ("success",): 0.7,
        ("missing",): 10 / 40_000,
        ("duplicates",): 3 / 50_000,
        ("reconciliation_seconds",): 90,
        ("recovery_seconds",): 40_800,
        ("slot_bytes",): 2_000_000_000,
    }
    assert of["incload_slot_bytes"] == {(): 2_000_000_000}
    assert of["incload_slo_target"].keys() - of["incload_sli"].keys() == {("lag_records",)}, "no sensor has run"
    assert of["incload_slo_target"]["success",] == 0.6
    assert of["incload_budget_burnt_ratio"] == {(): pytest.approx(0.75)}
    assert of["incload_cost_total"] == {(): 4.0}


def test_records_that_wait_are_counted_by_topic_partition_where_the_source_has_such() -> None:
    def lag(**parts: int) -> dict[str, float]:
        found = metrics_of(MONTH, watch=Watch(seen=replace(SEEN, waiting_by_part=parts)))
        return {key[1]: value for key, value in found.items() if key[0] == "incload_lag_records"}

    assert lag() == {"": 70} and lag(**{"0": 60, "11": 10}) == {"0": 60, "11": 10}


def test_a_table_is_late_by_its_sensor_or_without_one_by_its_loads() -> None:
    late = ("incload_late",)
    assert metrics_of(MONTH)[late] == 1, "the window of 28 January is due and not loaded"
    for verdict, value in {"late": 1, "fresh": 0, "idle": 0, "not due": 0, "undeclared": 1}.items():
        seen = Observed(at="2026-02-01T11:59:00+00:00", verdict=verdict)
        assert metrics_of(MONTH, watch=Watch(seen=seen))[late] == value, verdict
    never = Facts(at=NOW, tables={"guests": facts_of(MONTH, [])})
    assert [s.value for s in samples(never) if s.metric == "incload_late"] == []


def test_the_documentation_has_every_indicator() -> None:
    assert {indicator.name for indicator in INDICATORS} - {*Page(DOCS / "service_levels.md").code} == set()

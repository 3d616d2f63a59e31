"""The values of queries over literal samples, and that Prometheus computes the same from the same series."""

import json
import math
import random
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from incload_assets.monitoring.dashboard.evaluate import Reading, Values, evaluate, over_time
from incload_assets.monitoring.metrics import METRICS, Sample
from incload_assets.monitoring.panels import DASHBOARDS, Query
from tests.support.made_up_loads import reading

DAY = timedelta(days=1)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
QUERIES = [panel.query for dashboard in DASHBOARDS for panel in dashboard.panels] + [
    Query(metric="incload_windows", by=(), where={"status": "!loaded", "table": "orders"}),
    Query(metric="incload_windows", by=("status",), fold="max", times=0.5),
    Query(metric="incload_windows", by=("status", "absent"), fold="min", where={"absent": ""}),
    Query(metric="incload_windows", divided_by=Query(metric="incload_runs", by=("table", "absent"))),
    Query(metric="incload_windows", by=(), divided_by=Query(metric="incload_runs", by=())),
    Query(metric="incload_windows", divided_by=Query(metric="incload_runs", where={"status": "queued"})),
]
"""Those of all dashboards, and some that are harder."""


def taken(*found: tuple[str, dict[str, str], float]) -> Reading:
    return reading(Sample(*one) for one in found)


STATUS = taken(
    ("windows", {"table": "a", "status": "loaded"}, 5),
    ("windows", {"table": "a", "status": "failed"}, 2),
    ("windows", {"table": "b", "status": "loaded"}, 7),
    ("windows", {"table": "b", "status": "missing"}, 1),
    ("targets", {"table": "a"}, 10),
    ("targets", {"table": "b"}, 0),
)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (Query(metric="windows"), {("a",): 7, ("b",): 8}),
        (Query(metric="windows", by=()), {(): 15}),
        (Query(metric="windows", fold="max"), {("a",): 5, ("b",): 7}),
        (Query(metric="windows", fold="min", by=("status",)), {("loaded",): 5, ("failed",): 2, ("missing",): 1}),
        (Query(metric="windows", where={"status": "failed"}), {("a",): 2}),
        (Query(metric="windows", where={"status": "!loaded"}), {("a",): 2, ("b",): 1}),
        (Query(metric="windows", where={"owner": "!me"}), {("a",): 7, ("b",): 8}),
        (Query(metric="windows", where={"owner": "me"}), {}),
        (Query(metric="windows", times=10), {("a",): 70, ("b",): 80}),
        (Query(metric="windows", divided_by=Query(metric="targets")), {("a",): 0.7}),
        (Query(metric="windows", by=("owner",)), {("",): 15}),
        (Query(metric="nothing"), {}),
    ],
)
def test_a_query_chooses_groups_and_divides(query: Query, values: Values) -> None:
    assert evaluate(query, STATUS) == pytest.approx(values)


def test_an_increase_is_the_difference_of_the_totals() -> None:
    query = Query(metric="rows_total", by=("table", "kind"), increase=DAY)
    before = taken(
        ("rows_total", {"table": "a", "kind": "read"}, 100), ("rows_total", {"table": "b", "kind": "read"}, 9)
    )
    now = taken(
        ("rows_total", {"table": "a", "kind": "read"}, 130),
        ("rows_total", {"table": "a", "kind": "stale"}, 4),
        ("rows_total", {"table": "b", "kind": "read"}, 3),
    )
    grown = evaluate(query, now, before)
    assert grown == {("a", "read"): 30, ("a", "stale"): 4, ("b", "read"): 3}, "a new one, and one that began again"
    assert evaluate(query, now) == {}, "without the totals before it is unknown"


def test_a_value_that_is_no_number_hides_no_other() -> None:
    found = taken(("m", {"n": "1"}, math.nan), ("m", {"n": "2"}, 3), ("m", {"n": "3"}, 1))
    assert evaluate(Query(metric="m", by=(), fold="max"), found) == {(): 3}
    assert evaluate(Query(metric="m", by=(), fold="min"), found) == {(): 1}
    assert math.isnan(evaluate(Query(metric="m", by=()), found)[()])


def test_values_over_time_begin_where_the_time_before_is_known() -> None:
    totals = {NOON - 2 * DAY: 10.0, NOON - DAY: 15.0, NOON: 18.0}
    readings = {at: taken(("rows_total", {"table": "a"}, total)) for at, total in totals.items()}
    grown = over_time(Query(metric="rows_total", increase=DAY), readings)
    assert grown == {("a",): [(NOON - DAY, 5), (NOON, 3)]}
    present = over_time(Query(metric="rows_total"), readings)
    assert present == {("a",): [*totals.items()]}


def made_up(fate: random.Random, *, slopes: bool) -> list[tuple[Sample, int]]:
    """Series of all metrics of the panels, with what they grow in a minute."""
    labels = {metric.name: metric.labels for metric in METRICS}
    names = {query.metric for query in QUERIES} | {q.divided_by.metric for q in QUERIES if q.divided_by}
    found = {}
    for name in sorted(names):
        for table in ("orders", "customers", "items"):
            for number in range(4):
                given = {label: fate.choice(["queued", "loaded", "read", "applied", "freshness_p95"])
                         for label in labels.get(name, ("sli", "quantile"))}  # fmt: skip
                sample = Sample(name, {"table": table, **given}, float(fate.choice([0, 1, 3, 256, 4096 + number])))
                found[name, str(sorted(sample.labels.items()))] = sample, fate.randrange(4) if slopes else 0
    return [*found.values()]


def ask_prometheus(
    folder: Path, series: Sequence[tuple[Sample, int]], expected: Sequence[tuple[Query, Values]]
) -> None:
    """Have Prometheus compute the queries after two days of samples, one each minute."""
    promtool = shutil.which("promtool")
    assert promtool, "Prometheus computes the same queries, and its promtool is not installed"

    def braced(labels: Iterable[tuple[str, str]]) -> str:
        return f"{{{', '.join(f'{name}={json.dumps(value)}' for name, value in labels if value)}}}"

    minutes = 2 * 24 * 60
    tests = [
        {
            "expr": f"round({query.promql}, 0.0001)",
            "eval_time": f"{minutes}m",
            "exp_samples": [
                {
                    "labels": braced(zip(query.by, labels, strict=True)),
                    "value": math.floor(value / 0.0001 + 0.5) / (1 / 0.0001),
                }
                for labels, value in values.items()
            ],
        }
        for query, values in expected
    ]
    given = [
        {"series": s.metric + braced(s.labels.items()), "values": f"{s.value:.0f}+{slope}x{minutes}"}
        for s, slope in series
    ]
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump({"tests": [{"interval": "1m", "input_series": given, "promql_expr_test": tests}]}, width=10_000)
    )
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_prometheus_computes_the_same(tmp_path: Path, seed: int) -> None:
    series = made_up(random.Random(seed), slopes=True)
    minutes = 2 * 24 * 60

    def at(minute: int) -> Reading:
        return reading(Sample(s.metric, s.labels, s.value + minute * slope) for s, slope in series)

    expected = []
    for query in QUERIES:
        length = query.increase or timedelta(0)
        before = at(minutes - round(length.total_seconds() / 60))
        expected.append((query, evaluate(query, at(minutes), before)))
    assert sum(len(values) for _, values in expected) > 60
    ask_prometheus(tmp_path, series, expected)

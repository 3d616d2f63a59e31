"""The three dashboards as data: each panel is one query over the metrics, for Grafana and for our own page alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

Shape = Literal["number", "bars", "table", "series"]
Unit = Literal["s", "short", "bytes", "percentunit", "dateTimeFromNow", "none"]


@dataclass(frozen=True, kw_only=True)
class Query:
    """An aggregate of a metric's series.

    Args:
        by: The labels whose values are kept apart; empty: one number.
        fold: How series with the same labels become one.
        where: Only series with these values of labels; a value that begins with ``!`` is excluded.
        increase: The growth of a counter over this time; None: its present value.
        divided_by: The result is divided by that of this query, series by series.
        times: The result is multiplied by this.
    """

    metric: str
    by: Sequence[str] = ("table",)
    fold: Literal["sum", "max", "min"] = "sum"
    where: Mapping[str, str] = field(default_factory=dict)
    increase: timedelta | None = None
    divided_by: "Query | None" = None
    times: float = 1.0

    @property
    def promql(self) -> str:
        """The query in Prometheus's language.

        Example:
            >>> Query(metric="incload_rows_total", where={"kind": "read"}, increase=timedelta(days=1)).promql
            'sum by (table) (increase(incload_rows_total{kind="read"}[1d]))'
        """
        chosen = ",".join(f'{n}!="{v[1:]}"' if v.startswith("!") else f'{n}="{v}"' for n, v in self.where.items())
        series = f"{self.metric}{{{chosen}}}" if chosen else self.metric
        if self.increase is not None:
            series = f"increase({series}[{in_prometheus(self.increase)}])"
        by = f" by ({', '.join(self.by)})" if self.by else ""
        text = f"{self.fold}{by} ({series})"
        if self.divided_by is not None:
            text = f"{text} / ({self.divided_by.promql} > 0)"
        return text if self.times == 1 else f"{self.times:g} * {text}"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of a dashboard.

    Args:
        help: What it shows and when to worry, one or two sentences.
        shape: ``number`` one value; ``bars`` a bar for each series now; ``table`` a row for each series now; ``series``
            lines over time.
        unit: Unit of the values, as Grafana calls it.
        worry: The value from which on it is marked; None: never.
        worry_below: Whether smaller values are the worrying ones.
    """

    title: str
    help: str
    query: Query
    shape: Shape = "series"
    unit: Unit = "short"
    worry: float | None = None
    worry_below: bool = False


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard: its name in addresses, its title, its readers and what it answers, its panels in reading order."""

    name: str
    title: str
    about: str
    panels: Sequence[Panel]


def in_prometheus(length: timedelta) -> str:
    """A length of time in Prometheus's notation, for example ``6h`` or ``90m``."""
    seconds = round(length.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


_DAY = timedelta(days=1)


def _grown(metric: str, by: Sequence[str] = ("table",), over: timedelta = _DAY, **where: str) -> Query:
    return Query(metric=metric, by=by, increase=over, where=where)


def _against_target(sli: str) -> Query:
    where = {"sli": sli}
    return Query(metric="incload_sli", where=where, divided_by=Query(metric="incload_slo_target", where=where))


EXECUTIVE = Dashboard(
    name="executive",
    title="Incremental loads: overview",
    about="For whoever depends on the tables: are they fresh and complete, within their objectives, and at what cost?",
    panels=(
        Panel(
            title="Tables that are late",
            help="Tables whose latest due window is not loaded. Anything but 0 is a late table.",
            query=Query(metric="incload_late", by=()),
            shape="number",
            worry=1,
        ),
        Panel(
            title="Open mismatches",
            help="What the last reconciliations found and no load has repaired yet.",
            query=Query(metric="incload_mismatches", by=()),
            shape="number",
            worry=1,
        ),
        Panel(
            title="Freshness against target",
            help="95 % of windows and changes were loaded within this share of the target; above 1 it is missed.",
            query=_against_target("freshness_p95"),
            shape="bars",
            unit="percentunit",
            worry=1,
        ),
        Panel(
            title="Freshness percentiles",
            help="Time from a window's end, or from the first sight of a change, to its load: p50, p95 and p99.",
            query=Query(metric="incload_freshness_seconds", by=("table", "quantile"), fold="max"),
            unit="s",
        ),
        Panel(
            title="Rows changed a day",
            help="Rows that loads inserted, updated and deleted in the last 24 hours.",
            query=_grown("incload_rows_total", kind="applied"),
        ),
        Panel(
            title="Cost a day",
            help="Computing time of the loads of the last 24 hours at the declared price.",
            query=_grown("incload_cost_total"),
        ),
        Panel(
            title="Error budget burnt",
            help="Share of the period's allowed misses that is used up; at 1 the objective is missed.",
            query=Query(metric="incload_budget_burnt_ratio"),
            shape="bars",
            unit="percentunit",
            worry=0.75,
        ),
        Panel(
            title="Windows missed",
            help="Windows of the last 24 hours that were not loaded when they were due.",
            query=_grown("incload_missed_windows_total"),
            worry=1,
        ),
    ),
)
ON_CALL = Dashboard(
    name="on-call",
    title="Incremental loads: on call",
    about="For whoever got the page: which tables are late or failing, since when, why, and what waits for a slot?",
    panels=(
        Panel(
            title="Overdue",
            help="For how long the latest due window of a table has been overdue.",
            query=Query(metric="incload_overdue_seconds"),
            shape="bars",
            unit="s",
            worry=1,
        ),
        Panel(
            title="News waiting",
            help="For how long the oldest news at the source have been waiting.",
            query=Query(metric="incload_news_waiting_seconds"),
            shape="bars",
            unit="s",
        ),
        Panel(
            title="Sources that do not answer",
            help="0 where the last look at the source failed.",
            query=Query(metric="incload_source_up", fold="min"),
            shape="table",
            worry=0,
            worry_below=True,
        ),
        Panel(
            title="Windows by status",
            help="Failed, missing, drifted, running and waiting windows.",
            query=Query(metric="incload_windows", by=("table", "status"), where={"status": "!loaded"}),
            shape="table",
        ),
        Panel(
            title="Errors an hour by class",
            help="Failed attempts of the last hour by kind of error.",
            query=_grown("incload_errors_total", by=("table", "class"), over=timedelta(hours=1)),
            worry=1,
        ),
        Panel(
            title="Records behind",
            help="Records that the source holds and no load has read, where the source can count them.",
            query=Query(metric="incload_lag_records"),
        ),
        Panel(
            title="Records behind against target",
            help="The same as a share of the table's target; its page has them by topic partition.",
            query=_against_target("lag_records"),
            shape="bars",
            unit="percentunit",
            worry=1,
        ),
        Panel(
            title="Bytes kept for slots",
            help="Log that PostgreSQL keeps until the reader of a replication slot has read it.",
            query=Query(metric="incload_slot_bytes"),
            unit="bytes",
        ),
        Panel(
            title="Bytes kept for slots against target",
            help="The same as a share of the table's target; nothing may be reading the slot.",
            query=_against_target("slot_bytes"),
            shape="bars",
            unit="percentunit",
            worry=1,
        ),
        Panel(
            title="Retention left",
            help="Unused share of the source's retention for data that is not loaded; at 0 data is lost.",
            query=Query(metric="incload_retention_left_ratio", fold="min"),
            shape="bars",
            unit="percentunit",
            worry=0.25,
            worry_below=True,
        ),
        Panel(
            title="Runs",
            help="Runs that wait for a slot, and runs that have one.",
            query=Query(metric="incload_runs", by=("table", "status")),
            shape="table",
        ),
        Panel(
            title="Checks that fail",
            help="0: the last result of the check is bad.",
            query=Query(metric="incload_check_passed", by=("table", "check"), fold="min"),
            shape="table",
            worry=0,
            worry_below=True,
        ),
        Panel(
            title="Windows that wait for a person",
            help="The sensor has given up on them; `incload status TABLE` says why.",
            query=Query(metric="incload_stopped_windows"),
            shape="table",
            worry=1,
        ),
    ),
)
DEBUG = Dashboard(
    name="debug",
    title="Incremental loads: debug",
    about="For whoever looks for the cause: where does the time go, and what becomes of the rows?",
    panels=(
        Panel(
            title="Seconds a day by phase",
            help="Time of all loads of the last 24 hours by phase.",
            query=_grown("incload_phase_seconds_total", by=("table", "phase")),
            unit="s",
        ),
        Panel(
            title="Rows by outcome",
            help="Rows read in the last 24 hours by bin: applied, stale, duplicate, quarantined.",
            query=_grown("incload_rows_total", by=("table", "kind")),
            shape="table",
        ),
        Panel(
            title="Rows in quarantine",
            help="Rows of the last 24 hours that break the contract.",
            query=_grown("incload_rows_total", kind="quarantined"),
            worry=1,
        ),
        Panel(
            title="Attempts a day by outcome",
            help="Attempts of the last 24 hours.",
            query=_grown("incload_loads_total", by=("table", "outcome")),
        ),
        Panel(
            title="Rows changed in windows that were loaded before",
            help="Late rows and corrections of the last 24 hours.",
            query=_grown("incload_backfilled_rows_total"),
        ),
        Panel(
            title="Bytes ingested",
            help="Size of the changes of the last 24 hours in the log.",
            query=_grown("incload_bytes_total"),
            unit="bytes",
        ),
        Panel(
            title="Last load",
            help="When a window of the table was last loaded.",
            query=Query(metric="incload_last_load_timestamp_seconds", fold="max", times=1000),
            shape="table",
            unit="dateTimeFromNow",
        ),
        Panel(
            title="Last look of each check",
            help="When each check last observed its table.",
            query=Query(metric="incload_check_timestamp_seconds", by=("table", "check"), fold="max", times=1000),
            shape="table",
            unit="dateTimeFromNow",
        ),
    ),
)
DASHBOARDS = (EXECUTIVE, ON_CALL, DEBUG)
"""All dashboards."""

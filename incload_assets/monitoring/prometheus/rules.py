"""Prometheus's rules and scrape configuration, made from the declarations of tables."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from re import escape
from string import Template
from typing import Any

from incload_assets.declaration.table import Table
from incload_assets.monitoring.due_windows import due_times
from incload_assets.monitoring.panels import in_prometheus
from incload_assets.monitoring.prometheus.alerts import ALERTS, CRITICALITY, EXCUSE, EXCUSES, JOB, Alert, Urgency

RUNBOOKS = "runbooks.md"
"""The default address of the runbooks."""
SEVERITY: Mapping[Urgency, str] = {
    "criticality": '{{ if eq $labels.criticality "high" }}page{{ else if eq $labels.criticality "normal" }}ticket'
    "{{ else }}none{{ end }}",
    "ticket": '{{ if eq $labels.criticality "low" }}none{{ else }}ticket{{ end }}',
    "finding": '{{ if eq $labels.criticality "low" }}none{{ else if and (eq $labels.criticality "high") '
    '(eq $labels.severity "ERROR") }}page{{ else }}ticket{{ end }}',
    "page": "page",
    "none": "none",
}
"""The label ``severity`` by urgency, as templates of Prometheus."""
_SHORTEST = timedelta(hours=26)
"""The shorter time of the burn rate: a day and what a daily window may be late."""
_PATIENCE = timedelta(minutes=15)
_DAY = timedelta(days=1)
_LOOKED_AT = 13
"""The number of windows that show how long windows are: a year of months."""


@dataclass(frozen=True, order=True)
class Objectives:
    """The objectives that alerts depend on, the same for many tables.

    Args:
        promised: The time within which windows and changes are loaded.
        budget: Share of the due windows that may be missed.
        short: The shorter time of the burn rate, a day or two windows. The longer one is three times that.
        patience: The time without a tick of the sensor from which on it stands.
    """

    promised: timedelta
    budget: float
    short: timedelta
    patience: timedelta

    @classmethod
    def of(cls, table: Table, at: datetime) -> "Objectives":
        """The objectives of a table; its windows are as long as they are at an instant."""
        ends = due_times(table, at)[-_LOOKED_AT:]
        longest = max((later - earlier for earlier, later in pairwise(ends)), default=timedelta())
        short = 2 * timedelta(days=ceil(longest / _DAY)) if longest > _SHORTEST else _SHORTEST
        budget = round(1 - float(table.slo.success), 9)
        return cls(table.promised, budget, short, max(_PATIENCE, 4 * table.interval))

    def values(self) -> dict[str, str]:
        """The values that the templates of conditions name, in PromQL."""
        return {
            "promised": f"{self.promised.total_seconds():g}",
            "fast": f"{min(10 * self.budget, (1 + self.budget) / 2):g}",
            "short": in_prometheus(self.short),
            "long": in_prometheus(3 * self.short),
            "patience": f"{self.patience.total_seconds():g}",
        }


def rules(tables: Iterable[Table], runbooks: str = RUNBOOKS, at: datetime | None = None) -> dict[str, Any]:
    """The content of Prometheus's rule file; the length of windows is taken at an instant, by default now."""
    grouped: dict[Objectives, list[str]] = defaultdict(list)
    for table in tables:
        grouped[Objectives.of(table, at or datetime.now(UTC))].append(table.name)
    recorded: list[dict[str, Any]] = [
        {"record": CRITICALITY, "expr": "max by (table, criticality) (incload_table_info)"},
        *({"record": EXCUSE, "expr": expr, "labels": {"reason": reason}} for reason, expr in EXCUSES.items()),
    ]
    alerts = [_rule(alert, expr, runbooks) for alert in ALERTS if (expr := _expression(alert, grouped))]
    return {"groups": [{"name": "incload", "rules": [*recorded, *alerts]}]}


def _expression(alert: Alert, grouped: Mapping[Objectives, Sequence[str]]) -> str:
    """The condition for all tables; where it depends on their objectives, joined by ``or``, as names are not unique."""
    template, told = Template(alert.expr), dict[tuple[tuple[str, str], ...], list[str]]()
    used = set(template.get_identifiers())
    if not used:
        return alert.expr
    for objectives, names in sorted(grouped.items()):
        values = tuple((name, value) for name, value in objectives.values().items() if name in used)
        told.setdefault(values, []).extend(names)
    parts = [template.substitute(dict(values), tables=any_of(names)) for values, names in told.items()]
    return " or ".join(f"({part})" for part in parts) if len(parts) != 1 else parts[0]


def any_of(names: Iterable[str]) -> str:
    """A regular expression for names, escaped for PromQL's double quotes.

    Example:
        >>> any_of(["orders", "a-b"])
        'a-b|orders'
    """
    return "|".join(escape(name).replace(r"\-", "-") for name in sorted(names)).replace("\\", "\\\\")


def _rule(alert: Alert, expr: str, runbooks: str) -> dict[str, Any]:
    of_tables = alert.urgency not in ("page", "none")
    rule: dict[str, Any] = {
        "alert": alert.name,
        "expr": f"({expr}) * on (table) group_left (criticality) {CRITICALITY}" if of_tables else expr,
    }
    if alert.lasts:
        rule["for"] = in_prometheus(alert.lasts)
    labels = {"severity": SEVERITY[alert.urgency], "cause": alert.cause, "failure_mode": alert.failure_mode}
    return rule | {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {
            "summary": alert.summary,
            "description": f"{alert.summary}. What to do: {alert.action}",
            "runbook": f"{runbooks}#{alert.runbook}",
        },
    }


def prometheus(target: str) -> dict[str, Any]:
    """An example of Prometheus's configuration, with the files that are rendered beside it; scrapes a host and port."""
    return {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9093"]}]}]},
        "scrape_configs": [
            {"job_name": JOB, "scrape_timeout": "20s", "static_configs": [{"targets": [target]}]},
        ],
    }

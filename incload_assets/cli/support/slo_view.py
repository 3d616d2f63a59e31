"""The tables that ``incload slo`` shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table as Grid

from incload_assets.cli.support import screen
from incload_assets.declaration.table import Table
from incload_assets.monitoring.slis import Sli, Unit
from incload_assets.platform.wording import length, share, size

UNKNOWN = "-"
_COLUMNS = {
    "freshness p95": "freshness_p95",
    "success": "success",
    "missing": "missing",
    "duplicates": "duplicates",
    "reconciled in": "reconciliation_seconds",
    "recovered in": "recovery_seconds",
}
"""The columns of the overview, by their heading: the indicators with a target that every kind of source has."""


def overview(found: Iterable[tuple[Table, Sequence[Sli]]]) -> Grid:
    """A row for each table: its objectives, and how much of the error budget is left."""
    grid = screen.grid("table")
    for heading in ("met", *_COLUMNS, "budget left"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for table, slis in found:
        by_name = {sli.name: sli for sli in slis}
        known = [sli.met for sli in slis if sli.met is not None]
        grid.add_row(
            table.name,
            _coloured(f"{sum(known)} of {len(known)}", all(known)) if known else UNKNOWN,
            *(
                _coloured(worded(by_name[name].value, by_name[name].unit), by_name[name].met)
                for name in _COLUMNS.values()
            ),
            worded(min((sli.budget for sli in slis if sli.budget is not None), default=None), "share"),
        )
    return grid


def details(table: Table, slis: Iterable[Sli]) -> Grid:
    """A row for each indicator of a table."""
    grid = screen.grid(table.name)
    for heading in ("value", "target", "met", "budget left", "trend"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for sli in slis:
        bound = "" if sli.target is None else "≥ " if sli.at_least else "≤ "
        grid.add_row(
            sli.name,
            worded(sli.value, sli.unit),
            f"{bound}{worded(sli.target, sli.unit)}" if sli.target is not None else "",
            _met(sli),
            worded(sli.budget, "share") if sli.budget is not None else "",
            _trend(sli),
        )
        for name, number in sorted(sli.parts.items()):
            grid.add_row(f"  {name}", worded(number, sli.unit), "", "", "", "")
    return grid


def as_data(table: Table, slis: Iterable[Sli], at: datetime) -> dict[str, Any]:
    """A table's indicators for programs, computed at an instant, which is aware."""
    return {
        "table": table.name,
        "at": at.isoformat(),
        "period_seconds": table.slo.period.total_seconds(),
        "slis": [
            {
                "name": sli.name,
                "value": sli.value,
                "unit": sli.unit,
                "target": sli.target,
                "met": sli.met,
                "budget_left": sli.budget,
                "before": sli.before,
                "trend": sli.trend,
                **({"parts": dict(sli.parts)} if sli.parts else {}),
            }
            for sli in slis
        ],
    }


def worded(value: float | None, unit: Unit) -> str:
    """A number with its unit, short.

    Example:
        >>> worded(86400, "seconds"), worded(0.9677, "share"), worded(1_100_000_000, "bytes"), worded(None, "rows")
        ('1 d', '96.8 %', '1.1 GB', '-')
    """
    return UNKNOWN if value is None else _TOLD.get(unit, _count)(value)


def _met(sli: Sli) -> str:
    if sli.target is None:
        return ""
    return UNKNOWN if sli.met is None else _coloured("yes" if sli.met else "no", sli.met)


def _trend(sli: Sli) -> str:
    trend = sli.trend
    if trend is None:
        return UNKNOWN
    if abs(trend) < 1e-9:
        return "="
    return f"{'+' if trend > 0 else '−'}{worded(abs(trend), sli.unit)}"


def _coloured(text: str, met: bool | None) -> str:
    return text if met is None else f"[{'green' if met else 'red'}]{text}[/]"


def _price(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.2g}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


_TOLD: Mapping[Unit, Callable[[float], str]] = {
    "seconds": length,
    "share": share,
    "bytes": size,
    "price": _price,
    "price/GB": lambda value: f"{_price(value)}/GB",
    "seconds/GB": lambda value: f"{length(value)}/GB",
}

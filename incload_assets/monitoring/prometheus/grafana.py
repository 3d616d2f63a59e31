"""The dashboards in Grafana's own model, made with its SDK, which the extra ``observability`` brings."""

from collections.abc import Callable, Mapping
from typing import Any

from grafana_foundation_sdk.builders import bargauge, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, VizOrientation
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from incload_assets.monitoring.panels import Dashboard, Panel, Query, Shape

SOURCE = "datasource"
"""The variable with which a person chooses the Prometheus."""
TAG = "incload"
WIDTH, HEIGHT = 24, 8
"""Of Grafana's grid: a row's width, and a panel's height."""


def as_grafana(board: Dashboard) -> str:
    """A dashboard as JSON that Grafana imports and provisions."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(f"{TAG}-{board.name}")
        .description(board.about)
        .tags([TAG])
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("1m")
        .time("now-24h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable(SOURCE).label("Prometheus").type("prometheus"))
    )
    for panel in board.panels:
        made.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _panel(panel: Panel) -> Any:
    """A panel's builder."""
    made = (
        _SHAPES[panel.shape]()
        .title(panel.title)
        .description(panel.help)
        .datasource(DataSourceRef("prometheus", f"${{{SOURCE}}}"))
        .unit(panel.unit)
        .height(HEIGHT)
        .span(WIDTH // 4 if panel.shape == "number" else WIDTH // 2)
        .with_target(_target(panel.query, panel.shape))
    )
    if panel.worry is not None:
        made.thresholds(_thresholds(panel.worry, below=panel.worry_below))
    return made


def _target(query: Query, shape: Shape) -> prometheus.Dataquery:
    legend = " ".join(f"{{{{{label}}}}}" for label in query.by)
    target = prometheus.Dataquery().expr(query.promql).ref_id("A").legend_format(legend or "__auto")
    if shape == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range() if shape == "series" else target.instant()


def _thresholds(worry: float, *, below: bool) -> dashboard.ThresholdsConfig:
    """Green and red on the two sides of a value."""
    if below:  # a value that equals a step has the step's colour, so that the first good one is a little above
        steps = [Threshold(value=None, color="red"), Threshold(value=worry + 1e-9, color="green")]
    else:
        steps = [Threshold(value=None, color="green"), Threshold(value=worry, color="red")]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def _bars() -> Any:
    reduced = ReduceDataOptions().calcs(["lastNotNull"])
    return bargauge.Panel().orientation(VizOrientation.HORIZONTAL).reduce_options(reduced)


def _table() -> Any:
    without_time = DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}})
    return table.Panel().show_header(True).with_transformation(without_time)


def _series() -> Any:
    legend = VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM)
    return timeseries.Panel().legend(legend.display_mode(LegendDisplayMode.LIST))


_SHAPES: Mapping[Shape, Callable[[], Any]] = {
    "number": lambda: stat.Panel().reduce_options(ReduceDataOptions().calcs(["lastNotNull"])),
    "bars": _bars,
    "table": _table,
    "series": _series,
}

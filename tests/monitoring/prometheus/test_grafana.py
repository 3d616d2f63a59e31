"""The dashboards as Grafana's own model reads them."""

import json

import pytest
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard as Model

from incload_assets.monitoring.panels import DASHBOARDS, Dashboard
from incload_assets.monitoring.prometheus.grafana import SOURCE, WIDTH, as_grafana

each = pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
KINDS = {"number": "stat", "bars": "bargauge", "table": "table", "series": "timeseries"}


def model(board: Dashboard) -> Model:
    register_default_plugins()  # the kinds of panels and of queries
    return Model.from_json(json.loads(as_grafana(board)))


@each
def test_it_is_a_dashboard_with_all_panels(board: Dashboard) -> None:
    read = model(board)
    panels = read.panels or []
    assert (read.title, read.uid) == (board.title, f"incload-{board.name}")
    assert [(panel.title, panel.type_val) for panel in panels] == [
        (panel.title, KINDS[panel.shape]) for panel in board.panels
    ]
    assert [panel.targets[0].expr for panel in panels] == [panel.query.promql for panel in board.panels]
    assert all(panel.description for panel in panels)


@each
def test_its_data_come_from_the_prometheus_that_is_chosen(board: Dashboard) -> None:
    read = model(board)
    assert [variable.name for variable in read.templating.list_val or []] == [SOURCE]
    assert {panel.datasource.uid for panel in read.panels or []} == {"${datasource}"}


@each
def test_its_panels_do_not_overlap(board: Dashboard) -> None:
    taken = set()
    for panel in model(board).panels or []:
        place = panel.grid_pos
        cells = {(place.x + x, place.y + y) for x in range(place.w) for y in range(place.h)}
        assert not cells & taken and place.x + place.w <= WIDTH
        taken |= cells


@each
def test_what_is_worrying_is_red(board: Dashboard) -> None:
    for panel, read in zip(board.panels, model(board).panels or [], strict=True):
        steps = read.field_config.defaults.thresholds.steps if panel.worry is not None else []
        assert [step.color for step in steps] == (
            [] if panel.worry is None else ["red", "green"] if panel.worry_below else ["green", "red"]
        )

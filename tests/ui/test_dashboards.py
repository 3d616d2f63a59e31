"""The dashboards' page in a real browser: shown, marked, kept up, readable in light and dark, and usable on a phone."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.page_server import Looks
from incload_assets.monitoring.dashboard.view import View, look
from tests.support.made_up_loads import made_up, weeks
from tests.support.made_up_tables import declared
from tests.support.pages import served
from tests.ui.browser import open_page

NOW = datetime(2026, 1, 20, 9, 30, tzinfo=UTC)
TABLES = ("guests", "rooms", "bills", "staff", "keys")
PATHS = ("executive", "on-call", "debug", "table/guests", "table/bills", "trace/guests?id=1")
CONTRASTS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const shape = one.closest("svg") && ["rect", "polyline"].includes(one.tagName) && !one.matches(".track");
    const words = !one.closest("svg") && [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!one.getClientRects().length || !(shape || words)) continue;
    const style = getComputedStyle(one);
    const front = words ? style.color : one.tagName === "rect" ? style.fill : style.stroke;
    const [a, b] = [light(parse(front)), light(ground(one))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), words ? 4.5 : 3, `${one.tagName}.${one.getAttribute("class")}: ${front}`]);
  }
  return found;
}"""
"""Of each text and each shape that is seen: its contrast, what it must be, and what it is."""

pytestmark = pytest.mark.ui


class Shown(Looks):
    """What is served; a test may change it."""

    def __init__(self, view: View) -> None:
        self.view, self.address = view, ""

    def last(self) -> View:
        return self.view


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with made_up(tmp_path_factory.mktemp("made_up"), declared(*TABLES), NOW) as world:
        weeks(world, TABLES)
        shown = Shown(look(world.instance, [*world.tables.values()], world.lake, NOW))
        with served(shown, LoadsTable(world.lake)) as server:
            shown.address = f"http://127.0.0.1:{server.server_address[1]}"
            yield shown


@pytest.fixture(scope="module")
def browser(shown: Shown) -> Iterator[Page]:
    with open_page(1400, 900) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """A page on which nothing goes wrong."""
    said: list[str] = []
    browser.on("console", lambda message: said.append(message.text))
    browser.on("pageerror", lambda error: said.append(str(error)))
    browser.set_viewport_size({"width": 1400, "height": 900})
    yield browser
    browser.emulate_media(color_scheme="light")
    assert [text for text in said if "ERR_CONNECTION_REFUSED" not in text] == []


def test_the_tabs_lead_to_the_three_dashboards(shown: Shown, page: Page) -> None:
    page.goto(shown.address)
    for tab, panel in (("On call", "Overdue"), ("Debug", "Seconds a day by phase"), ("Executive", "Open mismatches")):
        page.get_by_role("navigation").get_by_role("link", name=tab).click()
        expect(page.get_by_role("heading", name=panel)).to_be_visible()
        expect(page.get_by_role("navigation").locator("[aria-current=page]")).to_have_text(tab)


def test_a_late_table_is_marked_and_its_page_says_why(shown: Shown, page: Page) -> None:
    page.goto(f"{shown.address}/on-call")
    row = page.get_by_role("region", name="Overdue").get_by_role("row").filter(has_text="guests")
    late = row.locator("td.worry")
    expect(late).to_contain_text("3 h 30 min")
    assert late.evaluate("one => getComputedStyle(one).color") == "rgb(180, 35, 24)"
    assert row.locator("rect.worry").bounding_box()["width"] > 50  # type: ignore[index]
    row.get_by_role("link", name="guests", exact=True).click()
    expect(page.get_by_role("heading", name="guests", exact=True)).to_be_visible()
    expect(page.get_by_text("late by")).to_be_visible()
    bars = page.get_by_role("region", name="Last loads").locator("svg:has(rect.c0):visible")
    widths = [bars.nth(0).locator(f"rect.c{n}").bounding_box()["width"] for n in range(5)]  # type: ignore[index]
    assert widths[2] > widths[3] > widths[4] > widths[1] > widths[0] > 1, "as long as the phases took"
    page.get_by_role("region", name="Last loads").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="The run")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_in_both_schemes(shown: Shown, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in PATHS:
        page.goto(f"{shown.address}/{path}")
        page.locator("details").evaluate_all("all => all.forEach((one) => one.open = true)")
        found = page.evaluate(CONTRASTS)
        assert len(found) > (10 if "trace" in path else 30)
        assert [one for one in found if one[0] < one[1]] == [], path
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(15, 20, 26)") == (scheme == "dark")


def test_a_phone_shows_everything_without_moving_sideways(shown: Shown, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for path in PATHS:
        page.goto(f"{shown.address}/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        for number in page.locator("td.right:visible").all()[:20]:
            assert number.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_the_page_is_kept_up_and_what_is_open_stays_open(shown: Shown, page: Page) -> None:
    page.goto(f"{shown.address}/on-call")
    page.locator("#overdue-all summary").click()
    expect(page.locator("#overdue-all table")).to_be_visible()
    before = shown.view
    shown.view = replace(before, facts=replace(before.facts, at=NOW + timedelta(minutes=30)))
    try:
        page.evaluate("refresh()")
        expect(page.locator(".at")).to_contain_text("10:00:00")
    finally:
        shown.view = before
    expect(page.locator("#overdue-all table")).to_be_visible()
    assert page.evaluate("document.activeElement.parentElement.id") == "overdue-all"
    assert page.locator("script").get_attribute("data-seconds") == "30"


def test_a_row_is_traced_by_the_form_and_what_somebody_types_stays_when_the_page_is_refreshed(
    shown: Shown, page: Page
) -> None:
    page.goto(f"{shown.address}/table/guests")
    page.get_by_label("id", exact=True).fill("17")
    page.evaluate("refresh()")
    expect(page.get_by_label("id", exact=True)).to_have_value("17")
    page.get_by_role("button", name="Trace").click()
    expect(page.get_by_role("region", name="Now")).to_contain_text("id=17: there is no log")
    expect(page.get_by_label("id", exact=True)).to_have_value("17")


def test_a_page_that_is_no_longer_kept_up_says_so(shown: Shown, page: Page) -> None:
    page.goto(f"{shown.address}/on-call")
    expect(page.locator(".stale")).to_be_hidden()
    page.route("**/on-call", lambda route: route.abort("connectionrefused"))
    page.evaluate("refresh()")
    expect(page.locator(".stale")).to_have_text(re.compile("no longer kept up"))
    page.unroute("**/on-call")
    page.evaluate("refresh()")
    expect(page.locator(".stale")).to_be_hidden()


def test_each_panel_has_a_heading_and_each_chart_a_title(shown: Shown, page: Page) -> None:
    for path in PATHS:
        page.goto(f"{shown.address}/{path}")
        assert page.locator("h1").count() == 1
        assert page.locator("section:not(:has(h2))").count() == 0
        assert page.locator("table:not(:has(caption))").count() == 0
        assert page.locator("svg:not(:has(> title:first-child)):not([aria-hidden])").count() == 0
        assert page.locator("tbody tr:not(:has(> th[scope=row]:first-child))").count() == 0
        names = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
        assert len(names) == len(set(names))

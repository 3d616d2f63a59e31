"""The pages as HTML: every number is there, what needs attention is marked, and no text becomes markup."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import dagster as dg
import pytest
from pydantic import ValidationError

from incload_assets.declaration.window import window_of
from incload_assets.monitoring.dashboard.drawing import MOST, Links
from incload_assets.monitoring.dashboard.grid import SPOKEN, shown, worries
from incload_assets.monitoring.dashboard.loads import load_page
from incload_assets.monitoring.dashboard.page import dashboard_page
from incload_assets.monitoring.dashboard.table_page import table_page
from incload_assets.monitoring.dashboard.view import View, look, steps
from incload_assets.monitoring.facts import Check, Facts, TableFacts, Watch
from incload_assets.monitoring.metrics import Sample
from incload_assets.monitoring.panels import DASHBOARDS, DEBUG, EXECUTIVE, ON_CALL, Dashboard, Panel, Query
from incload_assets.platform.settings import Settings
from incload_assets.platform.wording import ago, length, number, share, size
from incload_assets.progress.observed import Observed
from incload_assets.progress.slots import SlotRun, Slots
from tests.support.html import Node, parsed
from tests.support.made_up_loads import MadeUp, made_up, reading, row, timed, weeks
from tests.support.made_up_tables import asset, declared, table_of

NOW = datetime(2026, 1, 20, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)
LINKS = Links("http://127.0.0.1:3000")
EVIL = "<script>alert('x')</script>\"&"
TABLES = ("guests", "rooms", "bills", "staff", "keys")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUp]:
    with made_up(tmp_path_factory.mktemp("made_up"), declared(*TABLES), NOW) as world:
        weeks(world, TABLES)
        yield world


@pytest.fixture(scope="module")
def view(world: MadeUp) -> View:
    return look(world.instance, [*world.tables.values()], world.lake, NOW)


def plain(text: str) -> str:
    return " ".join(text.split())


def panel_in(page: Node, title: str) -> Node:
    [found] = [s for s in page.all("section") if s.all("h2") and s.all("h2")[0].text == title]
    return found


def row_of(panel: Node, name: str) -> Node:
    heads = {tr.children[0].text.removesuffix(" ↗"): tr for tr in panel.all("tr") if isinstance(tr.children[0], Node)}
    found = heads[name]
    assert found.one("th").attributes["scope"] == "row"
    return found


def single(panel: Panel, *found: tuple[dict[str, str], float]) -> Node:
    """The page of a dashboard with one panel over literal samples."""
    now = reading(Sample("m", labels, value) for labels, value in found)
    view = View(facts=Facts(at=NOW, tables={}), now=now)
    dashboard = Dashboard(name="executive", title="One: panel", about="About.", panels=[panel])
    return panel_in(parsed(dashboard_page(dashboard, view, LINKS)), panel.title)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda d: d.name)
def test_every_value_of_every_panel_is_on_the_page(dashboard: Dashboard, view: View) -> None:
    page, values_shown = parsed(dashboard_page(dashboard, view, LINKS)), 0
    assert page.one("h1").text and page.one("html").attributes["lang"] == "en"
    for panel in dashboard.panels:
        drawn = panel_in(page, panel.title)
        values = view.values(panel.query)
        assert panel.help.replace("`", "") in drawn.text
        if not values:
            assert "No data yet." in drawn.text
        for labels, value in values.items():
            text = SPOKEN.get(panel.query.metric, {}).get(value) or shown(value, panel.unit, NOW)
            if not value and panel.shape == "series" and len(labels) > 1:
                continue  # a column without any value but 0 is left out
            where = row_of(drawn, labels[0]) if labels else drawn
            assert plain(text) in where.text, (panel.title, labels)
            marks = [
                cell for cell in where.all() if "worry" in str(cell.attributes.get("class")) and cell.tag != "rect"
            ]
            assert not worries(panel, value) or [m for m in marks if plain(text) in m.text], (panel.title, labels)
            values_shown += 1
    assert values_shown > 10 or dashboard is EXECUTIVE


def test_a_late_table_is_marked_and_those_that_are_not_are_folded(view: View) -> None:
    overdue = panel_in(parsed(dashboard_page(ON_CALL, view, LINKS)), "Overdue")
    assert "alarm" in str(overdue.attributes["class"])
    late = row_of(overdue, "guests")
    assert "needs attention" in late.text and late.all("rect", **{"class": "worry"})
    assert f"The other {len(TABLES) - 1} tables: 0 s" in overdue.text
    assert "rooms" in overdue.one("details", id="overdue-all").text


def test_names_lead_to_their_page_and_to_dagster(view: View) -> None:
    page = parsed(dashboard_page(ON_CALL, view, LINKS))
    links = row_of(panel_in(page, "Overdue"), "guests").all("a")
    assert [a.attributes["href"] for a in links] == ["/table/guests", "http://127.0.0.1:3000/assets/guests"]
    nowhere = parsed(dashboard_page(ON_CALL, view, Links()))
    assert {str(a.attributes["href"])[0] for a in nowhere.all("a")} == {"/", "#"}
    tabs = page.one("nav").all("a")
    assert [(a.text, a.attributes.get("aria-current")) for a in tabs] == [
        ("Executive", None), ("On call", "page"), ("Debug", None)
    ]  # fmt: skip


def test_the_runs_at_each_slot_are_shown_and_one_that_has_ended_is_marked(view: View) -> None:
    quiet = replace(view, slots=(), slot_runs={})
    assert panel_in(parsed(dashboard_page(ON_CALL, quiet, LINKS)), "Slots").text == (
        "Slots No run holds a slot or waits for one."
    )
    runs = [
        SlotRun(run_id="held-run", table="keys", window="2026-01-02", since=NOW - DAY, process="process 7 on house"),
        SlotRun(run_id="over-run", table="keys", window="2026-01-03", over="The run has ended."),
        SlotRun(run_id="last-run", table=EVIL),
    ]
    busy = replace(
        view,
        slots=[Slots(of="state_keys", holders=["held-run", "over-run"], waiting=["last-run"])],
        slot_runs={run.run_id: run for run in runs},
    )
    text = dashboard_page(ON_CALL, busy, LINKS)
    held, over, last = panel_in(parsed(text), "Slots").one("tbody").all("tr")
    assert plain(held.text) == "state_keys holds it keys ↗ 2026-01-02 24 h ago held-run process 7 on house"
    assert [str(a.attributes["href"]) for a in held.all("a")][::2] == [
        "/table/keys", "http://127.0.0.1:3000/runs/held-run"
    ]  # fmt: skip
    assert "needs attention: holds it. The run has ended." in over.text and "waits" in last.text
    assert "<script>alert" not in text and "Slots" not in dashboard_page(DEBUG, busy, LINKS)
    queued = panel_in(parsed(dashboard_page(ON_CALL, view, LINKS)), "Slots")
    assert {tr.text[:15] for tr in queued.one("tbody").all("tr")} == {"run queue holds", "run queue waits"}


def test_lines_are_of_the_days_before(world: MadeUp, view: View) -> None:
    query = Query(metric="incload_rows_total", where={"kind": "read"}, increase=DAY)
    for name, line in view.lines(query).items():
        for (before, _), (at, value) in pairwise(line):
            read = sum(r.rows_read for r in world.rows if r.table == name[0] and before < r.ended_at <= at)
            assert (at - before, value) == (DAY, read)
        assert line[-1] == (NOW, view.values(query)[name]) and len(line) == 14
    chart = row_of(panel_in(parsed(dashboard_page(DEBUG, view, LINKS)), "Bytes ingested"), "guests").one("svg")
    assert chart.attributes["role"] == "img" and "in the last 14 days" in chart.one("title").text


def test_columns_in_which_nothing_ever_happened_are_left_out_of_lines(view: View) -> None:
    errors = panel_in(parsed(dashboard_page(ON_CALL, view, LINKS)), "Errors an hour by class")
    query = Query(metric="incload_errors_total", by=("class",), increase=timedelta(hours=1))
    happened = {labels[0] for labels, line in view.lines(query).items() if any(value for _, value in line)}
    columns = {th.text for th in errors.all("th", scope="col")} - {"table", "last 24 hours"}
    assert columns == happened or (not happened and "0 in the last 24 hours" in errors.text)


def test_gauges_are_remembered_from_look_to_look(view: View) -> None:
    query = Query(metric="incload_lag_records")
    before = replace(
        view, remembered={NOW - timedelta(minutes=1): reading([Sample(query.metric, {"table": "guests"}, 7)])}
    )
    assert [value for _, value in before.lines(query)[("guests",)]] == [7, 12_400]
    first, later = (panel_in(parsed(dashboard_page(ON_CALL, one, LINKS)), "Records behind") for one in (view, before))
    assert not first.all("svg") and row_of(later, "guests").all("polyline")


def test_a_panel_says_what_it_lacks_or_that_all_is_quiet() -> None:
    panel = Panel(title="Waiting", help="How many.", query=Query(metric="m"), shape="table")
    assert "No data yet." in single(panel).text
    quiet = single(panel, *(({"table": f"t{n}"}, 0) for n in range(5)))
    assert "All 5 tables: 0" in quiet.text and len(quiet.one("details").all("tr")) == 6
    loud = single(panel, *(({"table": f"t{n}"}, n) for n in range(5)))
    assert not loud.all("details") and len(loud.all("tr")) == 6


def test_long_lists_are_cut() -> None:
    panel = Panel(title="Waiting", help="How many.", query=Query(metric="m"), shape="bars")
    drawn = single(panel, *(({"table": f"t{n}"}, n + 1) for n in range(24)))
    assert drawn.one("summary").text == "and 12 more"
    names = [tr.children[0].text.removesuffix(" ↗") for tr in drawn.all("tr") if isinstance(tr.children[0], Node)]
    assert names[1:4] == ["t23", "t22", "t21"], "the greatest first"
    assert len(drawn.one("details").all("tr")) == 13


def test_very_long_lists_end_with_how_many_are_left_out() -> None:
    panel = Panel(title="Waiting", help="How many.", query=Query(metric="m"), shape="table")
    drawn = single(panel, *(({"table": f"t{n}"}, n + 1) for n in range(1500)))
    assert drawn.one("summary").text == "and 1,488 more"
    assert len(drawn.all("tr")) == MOST + 2 and "1,300 more are not shown." in drawn.one("details").text


def test_a_second_label_makes_columns() -> None:
    panel = Panel(
        title="By phase", help="Where.", query=Query(metric="m", by=("table", "phase")), shape="table", unit="s"
    )
    drawn = single(panel, ({"table": "a", "phase": "merge"}, 65), ({"table": "a", "phase": "detect"}, 2))
    assert [th.text for th in drawn.all("th", scope="col")] == ["table", "detect", "merge"]
    assert plain(row_of(drawn, "a").text) == "a ↗ 2 s 1 min 5 s"


def test_where_smaller_is_worse_the_smallest_is_first_and_marked() -> None:
    panel = Panel(
        title="Left",
        help="How much.",
        query=Query(metric="m"),
        shape="bars",
        unit="percentunit",
        worry=0.25,
        worry_below=True,
    )
    drawn = single(panel, ({"table": "a"}, 0.9), ({"table": "b"}, 0.2))
    rows = [tr.text for tr in drawn.all("tr")[1:]]
    assert rows[0].startswith("b") and "needs attention: 20 %" in rows[0] and "needs" not in rows[1]


def test_a_tables_page_has_its_loads_errors_quarantine_and_checks(world: MadeUp, view: View) -> None:
    for name in TABLES:
        page = parsed(table_page(view.facts.tables[name], view, LINKS))
        loads = panel_in(page, "Last loads")
        told = [one for one in reversed(world.rows) if one.table == name][:60]
        assert len(loads.all("svg")) == len(told)
        for one in told:
            assert [a for a in loads.all("a") if a.attributes["href"] == f"/load/{one.run_id}"], one.run_id
        chart = next(svg for svg in loads.all("svg") if "merge" in svg.one("title").text)
        assert [r.attributes["class"] for r in chart.all("rect")] == ["track", "c0", "c1", "c2", "c3", "c4", "c5"]
        failed = {one.error_class for one in told if one.outcome == "failed"}
        assert all(kind in panel_in(page, "Errors").text for kind in failed)
        checks = view.facts.tables[name].checks
        assert checks and all(check in panel_in(page, "Checks").text for check in checks)
        quarantine = panel_in(page, "Quarantine")
        newest = {one.window: one for one in reversed(told) if one.outcome == "loaded"}
        for one in newest.values():
            assert not one.quarantined or number(one.quarantined) in row_of(quarantine, one.window).text
    assert "late by 3 h 30 min" in parsed(table_page(view.facts.tables["guests"], view, LINKS)).text
    silent = parsed(table_page(view.facts.tables["rooms"], view, LINKS)).text
    assert "its last look at the source failed: rooms: the source is down. Remedy: look after it." in silent
    assert "amount: is not above 0" in parsed(table_page(view.facts.tables["bills"], view, LINKS)).text
    assert "waits for a person" in parsed(table_page(view.facts.tables["keys"], view, LINKS)).text


def test_a_table_says_how_far_it_is_behind_by_topic_partition_and_what_its_target_is(view: View) -> None:
    def lag(records: int | None, parts: dict[str, int], **checks: Check) -> list[str]:
        seen = Observed(at=NOW.isoformat(), waiting_records=records, waiting_by_part=parts)
        facts = TableFacts(table=declared("guests")["guests"], watch=Watch(seen=seen), checks=checks)
        sections = [s for s in parsed(table_page(facts, view, LINKS)).all("section") if s.one("h2").text == "Lag"]
        return [plain(tr.text) for s in sections for tr in s.one("tbody").all("tr")]

    assert lag(None, {}) == [], "files do not say how many records they hold"
    assert lag(0, {}) == ["records 0 up to 1.00 M now"]
    assert lag(1_200_000, {"0": 1_100_000, "11": 100_000}) == [
        "records ▲needs attention: 1.20 M up to 1.00 M now",
        "topic partition 0 1.10 M",
        "topic partition 11 100,000",
    ]
    assert lag(9, {"full": 2, "changes 3": 7})[1:] == ["changes: topic partition 3 7", "full 2"]
    slot = Check(passed=True, severity="WARN", at=NOW, values={"bytes_kept": 48_000_000})
    assert lag(None, {}, headroom=slot) == ["log kept for the replication slot 48 MB up to 1 GB now"]


def test_a_window_that_was_loaded_again_has_its_former_landings(view: View) -> None:
    table = declared("guests")["guests"]
    window = window_of(table.partitions_def, "2026-01-05")
    ends = [window.end + timedelta(hours=n) for n in (1, 5, 30)]
    rows = [replace(row(table, window, end, n), inserted=n + 1) for n, end in enumerate(ends)]
    facts = TableFacts(table=table, recent=rows)
    again = panel_in(parsed(table_page(facts, view, LINKS)), "Windows that were loaded again")
    assert plain(row_of(again, "2026-01-05").text).startswith("2026-01-05 3 2026-01-07 06:00:00, 3 rows changed")
    assert [li.text[:19] for li in again.all("li")] == ["2026-01-06 05:00:00", "2026-01-06 01:00:00"]
    shown_by = replace(view, facts=replace(view.facts, tables={"guests": facts}))
    page = parsed(load_page([rows[1]], shown_by, LINKS))
    assert [li.text[:19] for li in page.all("li")] == ["2026-01-06 01:00:00"]


def test_a_runs_page_has_its_trace_its_counts_its_proof_and_the_time_of_each_phase(view: View) -> None:
    facts = view.facts.tables["rooms"]
    one = next(row for row in facts.recent if row.outcome == "loaded" and row.quarantined)
    page = parsed(load_page([one], view, LINKS))
    for text in (one.run_id, one.trace_id, one.position, one.fingerprint, "log and table agree", one.window):
        assert text in page.text
    counts = row_of(panel_in(page, "Counts"), one.window).text
    assert all(number(n) in counts for n in (one.rows_read, one.inserted, one.updated, one.deleted, one.quarantined))
    time = row_of(panel_in(page, "Its time"), one.window)
    assert plain(length(one.merge)) in time.text and len(time.one("svg").all("rect")) == 6
    assert [a for a in page.all("a") if a.attributes["href"] == f"http://127.0.0.1:3000/runs/{one.run_id}"]


def test_windows_of_one_run_are_on_one_axis_of_time(view: View) -> None:
    table = declared("guests")["guests"]
    first, second = (window_of(table.partitions_def, f"2026-01-0{n}") for n in (5, 6))
    rows = [timed(row(table, first, NOW, 1), 4.0), timed(row(table, second, NOW + timedelta(seconds=4), 1), 4.0)]
    page = parsed(load_page(rows, view, LINKS))
    charts = panel_in(page, "Its time").all("svg")
    starts = [min(float(str(r.attributes["x"])) for r in chart.all("rect")[1:]) for chart in charts]
    assert starts[0] == 0 and 95 < starts[1] < 105, "the second begins in the middle"
    assert len(page.all("details")) == 2


def test_no_text_becomes_markup(view: View) -> None:
    table = table_of(asset("guests"))
    assert table is not None
    table = replace(table, owners=(EVIL,))
    window = window_of(table.partitions_def, "2026-01-05")
    evil = row(
        table, window, NOW, outcome="failed", error_class=EVIL, error=EVIL, asked_by=EVIL, position=EVIL, why=EVIL,
        commit=EVIL, fingerprint=EVIL, code_version=EVIL, trigger=EVIL, proof='{"' + "<b>" + '": 1}', run_id=EVIL,
    )  # fmt: skip
    good = replace(evil, outcome="loaded", quarantined=1, rows_read=2, window=EVIL)
    seen = Observed(at=NOW.isoformat(), verdict=EVIL, stopped={EVIL: EVIL}, failing={EVIL: EVIL}, windows={EVIL: 1},
                    pending={EVIL + "2": NOW.isoformat()})  # fmt: skip
    facts = TableFacts(
        table=table, recent=[evil, good], watch=Watch(tick=NOW, success=NOW, seen=seen),
        checks={EVIL: Check(passed=False, severity=EVIL, at=NOW, description=EVIL)},
    )  # fmt: skip
    labels = {"table": EVIL, "status": EVIL, "class": EVIL, "check": EVIL, "phase": EVIL, "kind": EVIL, "outcome": EVIL}
    metrics = {panel.query.metric for dashboard in DASHBOARDS for panel in dashboard.panels}
    now = reading(Sample(metric, labels, 3) for metric in metrics)
    instants = {at: reading([]) for at in (*steps(DAY, NOW), *steps(timedelta(hours=1), NOW))}
    hostile = View(facts=Facts(at=NOW, tables={EVIL: facts}), now=now, past=instants)
    pages = [table_page(facts, hostile, LINKS), load_page([evil, good], hostile, LINKS)]
    pages += [dashboard_page(dashboard, hostile, LINKS) for dashboard in DASHBOARDS]
    for page in pages:
        assert "<script>alert" not in page and "<b>" not in page
        tree = parsed(page)
        assert EVIL in tree.text
        assert [n.attributes["src"] for n in tree.all("script")] == ["/page.js"]
        assert not [name for n in tree for name in n.attributes if name.startswith("on") or name == "style"]


def test_a_stopped_daemon_and_missing_tables_are_said_first(view: View) -> None:
    def notices(**values: object) -> str:
        page = parsed(dashboard_page(EXECUTIVE, replace(view, facts=replace(view.facts, **values)), LINKS))  # type: ignore[arg-type]
        return " ".join(p.text for p in page.all("p", **{"class": "notice"}))

    assert notices() == ""
    assert "never run" in notices(heartbeats={})
    assert plain(notices(heartbeats={"SENSOR": NOW - timedelta(hours=3)})).startswith(
        "Dagster's daemon last gave a sign of life 3 h ago"
    )
    assert "no tables yet" in notices(tables={})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (length(0), "0 s"),
        (length(0.0004), "1 ms"),
        (length(0.35), "350 ms"),
        (length(5), "5 s"),
        (length(5.25), "5.2 s"),
        (length(9.97), "10 s"),
        (length(125), "2 min 5 s"),
        (length(3600), "1 h"),
        (length(12_000), "3 h 20 min"),
        (length(86_400 * 4 + 3 * 3600), "4 d 3 h"),
        (length(-61), "−1 min 1 s"),
        (length(59.7), "1 min"),
        (size(0), "0 Bytes"),
        (size(999), "999 Bytes"),
        (size(1_234_567), "1.23 MB"),
        (size(2_500), "2.5 kB"),
        (size(731_000), "731 kB"),
        (share(0.37), "37 %"),
        (share(0), "0 %"),
        (share(0.037), "3.7 %"),
        (share(0.0042), "0.42 %"),
        (share(12.5), "1,250 %"),
        (number(0), "0"),
        (number(12_345), "12,345"),
        (number(1_234_567), "1.23 M"),
        (number(0.0371), "0.0371"),
        (number(2.5), "2.5"),
        (number(1234.5), "1,234"),
        (shown(float("nan"), "s", NOW), "unknown"),
        (shown(float("inf"), "s", NOW), "unlimited"),
        (ago(NOW - timedelta(minutes=5), NOW), "5 min ago"),
        (ago(NOW, NOW), "now"),
        (ago(NOW + DAY, NOW), "in 24 h"),
        (shown((NOW - timedelta(hours=3)).timestamp() * 1000, "dateTimeFromNow", NOW), "3 h ago"),
    ],
)
def test_numbers_are_in_human_form(text: str, wanted: str) -> None:
    assert plain(text) == wanted


def test_a_single_value_over_time_is_a_dot(view: View) -> None:
    name = "incload_lag_records"
    before = {NOW - n * DAY: reading([Sample(name, {"table": "guests"}, 7)]) for n in (1, 2)}
    once = replace(view, remembered=before, now=reading([Sample(name, {"table": "rooms"}, 4)]))
    drawn = panel_in(parsed(dashboard_page(ON_CALL, once, LINKS)), "Records behind")
    first, second = str(row_of(drawn, "rooms").one("polyline").attributes["points"]).split()
    assert first == second


def test_a_table_in_dagster_links_to_its_page_and_its_code_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_asset = asset("guests")
    monkeypatch.setenv("INCLOAD_DASHBOARD_URL", "http://127.0.0.1:3070/")
    linked = asset("guests")
    [before], [after] = plain_asset.metadata_by_key.values(), linked.metadata_by_key.values()
    assert "dashboard" not in before
    assert after["dashboard"] == dg.MetadataValue.url("http://127.0.0.1:3070/table/guests")
    assert {name: value for name, value in after.items() if name != "dashboard"} == before
    assert plain_asset.code_versions_by_key == linked.code_versions_by_key


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://user:secret@host", "nothing"])
def test_an_address_of_the_page_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="dashboard_url") as refused:
        Settings(dashboard_url=url)
    assert "secret" not in str(refused.value)

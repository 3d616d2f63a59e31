"""The server of the pages: what it answers, to whom, and how often it looks at storage."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import dagster as dg
import pytest

from incload_assets.declaration.window import window_of
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.evaluate import Reading
from incload_assets.monitoring.dashboard.page_server import (
    EVERY_SECONDS,
    REMEMBERED,
    RUNBOOKS,
    SAMPLES,
    Looks,
    PageServer,
    looks,
)
from incload_assets.monitoring.dashboard.view import GAUGES, View, look
from incload_assets.monitoring.facts import Facts
from incload_assets.monitoring.metrics import Sample
from incload_assets.monitoring.prometheus.alerts import ALERTS
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from tests.support.guest_table import House, guest, house, key
from tests.support.html import parsed
from tests.support.made_up_loads import MadeUp, made_up, row, weeks
from tests.support.made_up_tables import declared
from tests.support.pages import asked, served

NOW = datetime(2026, 1, 20, 9, 30, tzinfo=UTC)
TABLES = ("guests", "rooms", "bills", "staff", "keys")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUp]:
    with made_up(tmp_path_factory.mktemp("made_up"), declared(*TABLES), NOW) as world:
        weeks(world, TABLES)
        yield world


@pytest.fixture(scope="module")
def server(world: MadeUp) -> Iterator[PageServer]:
    view = look(world.instance, [*world.tables.values()], world.lake, NOW)
    with served(Looks(lambda _: view), LoadsTable(world.lake)) as server:
        yield server


def test_the_links_of_alerts_lead_to_a_heading_of_the_runbooks(server: PageServer) -> None:
    _, _, text = asked(server, RUNBOOKS)
    assert not [alert.runbook for alert in ALERTS if f' id="{alert.runbook}">' not in text]
    assert "<table>" in text and asked(server, "/docs/../definitions.py")[0] == 404


@pytest.mark.parametrize(
    ("path", "title"),
    [("/", "Overview"), ("/executive", "Overview"), ("/on-call", "On call"), ("/debug?x=1", "Debug"),
     ("/table/guests", "guests"), ("/table/hourly", "hourly"), ("/docs/runbooks.md", "Runbooks")],
)  # fmt: skip
def test_each_page_is_served_and_runs_nothing_from_elsewhere(server: PageServer, path: str, title: str) -> None:
    status, headers, text = asked(server, path)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    page = parsed(text)
    assert page.one("h1").text == title
    wanted = [n.attributes["href"] for n in page.all("link")] + [n.attributes["src"] for n in page.all("script")]
    assert wanted == ["/page.css", "data:,", "/page.js"]
    for own in ("/page.css", "/page.js"):
        assert asked(server, own)[0] == 200


def test_every_link_on_every_page_leads_somewhere(server: PageServer) -> None:
    seen, left = {""}, ["/"]
    while left and len(seen) < 60:
        path = left.pop()
        status, _, text = asked(server, path)
        assert status == 200, path
        found = {str(a.attributes["href"]).partition("#")[0] for a in parsed(text).all("a")} - seen
        seen |= found
        left += sorted(found, reverse=True)
    assert {"/table/keys", "/debug"} <= seen and any(path.startswith("/load/") for path in seen)


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/table/nobody", "/table/", "/load/nothing", "/load/%3Cscript%3E", "/../etc/passwd", "/page.css/x"],
)
def test_what_is_not_there_is_not_found(server: PageServer, path: str) -> None:
    status, headers, text = asked(server, path)
    assert status == 404 and "content-security-policy" in headers
    assert parsed(text).one("h1").text == "Not found" and "<script>" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server: PageServer, method: str) -> None:
    status, headers, _ = asked(server, "/", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_the_head_of_a_page_has_no_body(server: PageServer) -> None:
    status, headers, text = asked(server, "/", "HEAD")
    assert (status, text) == (200, "") and int(headers["content-length"]) > 1000


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 403), ("localhost:1", 200), ("[::1]:80", 200), ("[", 403)]
)
def test_a_page_elsewhere_whose_name_leads_here_is_refused(server: PageServer, host: str, status: int) -> None:
    assert asked(server, "/", Host=host)[0] == status


def test_a_run_that_ended_long_ago_is_found_in_the_history(tmp_path: Path) -> None:
    with made_up(tmp_path, declared("guests", start="2025-01-01"), NOW) as world:
        table = world.tables["guests"]
        old = row(table, window_of(table.partitions_def, "2025-02-01"), NOW - timedelta(days=300), 5)
        world.append(old)
        view = look(world.instance, [table], world.lake, NOW)
        assert not view.facts.tables["guests"].recent
        with served(Looks(lambda _: view), LoadsTable(world.lake)) as server:
            status, _, text = asked(server, f"/load/{old.run_id}")
    assert status == 200 and old.trace_id in text and "2025-02-01" in text


def test_storage_is_looked_at_once_however_many_ask(world: MadeUp) -> None:
    taken: list[int] = []
    clock = [0.0]

    def take(remembered: object) -> View:
        taken.append(len(remembered))  # type: ignore[arg-type]
        return View(facts=Facts(at=NOW + timedelta(seconds=clock[0]), tables={}), now={})

    shared = Looks(take, lambda: clock[0])
    threads = [Thread(target=shared.last) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock[0] = EVERY_SECONDS - 0.1
    shared.last()
    assert taken == [0]
    for _ in range(REMEMBERED + 20):
        clock[0] += EVERY_SECONDS
        shared.last()
    assert taken == [0, *range(1, REMEMBERED), *[REMEMBERED] * 21], "earlier looks are remembered, and not too many"


def test_fewer_looks_are_remembered_of_many_tables() -> None:
    clock, taken = [0.0], list[int]()
    [name, *_] = GAUGES
    many = [Sample(name, {"table": f"t{number}"}, 1.0) for number in range(SAMPLES // 4)]

    def take(remembered: Mapping[datetime, Reading]) -> View:
        taken.append(len(remembered))
        return View(facts=Facts(at=NOW + timedelta(seconds=clock[0]), tables={}), now={name: many, "others": many * 9})

    shared = Looks(take, lambda: clock[0])
    for _ in range(7):
        shared.last()
        clock[0] += EVERY_SECONDS
    assert taken == [0, 1, 2, 3, 4, 4, 4]


def test_the_first_look_begins_before_a_page_is_asked_for() -> None:
    began = Event()

    def take(_: object) -> View:
        began.set()
        return View(facts=Facts(at=NOW, tables={}), now={})

    with served(Looks(take), LoadsTable(Lake("nowhere"))) as server:
        server.begin()
        assert began.wait(30)


def test_looks_that_take_long_are_rarer() -> None:
    clock, taken = [0.0], []

    def take(_: object) -> View:
        clock[0] += 30
        taken.append(clock[0])
        return View(facts=Facts(at=NOW, tables={}), now={})

    shared = Looks(take, lambda: clock[0])
    while clock[0] < 1500:
        shared.last()
        clock[0] += 1
    assert 9 <= len(taken) <= 11, "a fifth of the time"


def test_errors_are_shown_without_what_is_secret_and_the_next_look_may_succeed(world: MadeUp) -> None:
    view = look(world.instance, [*world.tables.values()], world.lake, NOW)
    errors = [
        SourceUnavailable("s3://key:secret@lake does not answer", remedy="try again"),
        ValueError("<b>//u:secret@x"),
    ]

    def take(_: object) -> View:
        if errors:
            raise errors.pop(0)
        return view

    with served(Looks(take), LoadsTable(world.lake)) as server:
        status, headers, text = asked(server, "/")
        assert (status, "secret" in text, "try again" in text) == (503, False, True)
        assert "content-security-policy" in headers
        status, _, text = asked(server, "/")
        assert (status, "secret" in text, "<b>" in text, "ValueError" in text) == (500, False, False, True)
        assert asked(server, "/")[0] == 200


def test_a_look_at_an_empty_code_location_shows_that_there_is_nothing_yet(tmp_path: Path) -> None:
    with (
        made_up(tmp_path, declared("guests"), NOW) as world,
        served(looks(world.instance, world.tables, world.lake), LoadsTable(world.lake)) as server,
    ):
        for path in ("/", "/on-call", "/debug", "/table/guests"):
            status, _, text = asked(server, path)
            assert status == 200 and "never" in parsed(text).text, path
        server.looks = looks(world.instance, {}, world.lake)
        assert "There are no tables yet" in asked(server, "/")[2]


def test_the_proof_of_an_older_version_is_shown_as_it_is(world: MadeUp) -> None:
    table = world.tables["guests"]
    one = row(table, window_of(table.partitions_def, "2026-01-02"), NOW, 999, proof=json.dumps({"keys": 4}))
    world.append(one)
    view = look(world.instance, [table], world.lake, NOW)
    with served(Looks(lambda _: replace(view)), LoadsTable(world.lake)) as server:
        status, _, text = asked(server, f"/load/{one.run_id}")
    assert status == 200 and "keys 4" in text and "agree" not in text


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, spark_settings: Settings) -> Iterator[tuple[House, PageServer]]:
    """Guests of two days: one is rejected on the first day, the only one of the second day fails its load."""
    root = tmp_path_factory.mktemp("loaded")
    (root / "dagster").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(root / "dagster")) as instance,
        house(root, spark_settings, instance=instance) as h,
    ):
        h.deliver(1, guest("1"), guest("2"), guest("3", "Secret Name", room=0))
        h.deliver(2, guest("4", "Secret Name", room=0, day=2))
        assert h.load(1, 2, 1) == [True, False, True]
        h.run(dg.AssetSelection.all_asset_checks())
        with served(looks(h.instance, {"guests": h.table}, h.lake), LoadsTable(h.lake)) as server:
            yield h, server


def test_real_loads_are_shown_with_their_time_their_proof_and_why_rows_are_in_quarantine(
    loaded: tuple[House, PageServer],
) -> None:
    server = loaded[1]
    table = asked(server, "/table/guests")[2]
    runs = {str(a.attributes["href"]) for a in parsed(table).all("a") if "/load/" in str(a.attributes["href"])}
    pages = [asked(server, run)[2] for run in runs]
    assert len(runs) == 3 and "Secret Name" not in "".join([table, *pages])
    text = parsed(table).text
    assert "room" in text.partition("Reasons")[2] and "ContractViolation" in text
    assert "None: each window was loaded once" not in text and f"{key(1)} 2 " in text
    assert sum("log and table agree" in page for page in pages) == 2
    charts = [svg for page in pages for svg in parsed(page).all("svg")]
    drawn = [{rect.attributes["class"] for rect in chart.all("rect")} for chart in charts]
    assert {f"c{n}" for n in range(5)} <= max(drawn, key=len), "all phases of the first load"

    [rejected] = [t for t in parsed(table).all("table") if t.one("caption").text == "Newest rows"]
    [cells] = [[cell.text for cell in row.all("td")] for row in rejected.one("tbody").all("tr")]
    place, reasons, record = cells
    assert place.endswith("a.json row 3") and reasons == "room: not >= 1"
    assert json.loads(record) == {**guest("3", room=0), "name": "***"}


def test_a_row_is_traced_by_the_form_on_its_tables_page(loaded: tuple[House, PageServer]) -> None:
    server = loaded[1]
    form = parsed(asked(server, "/table/guests")[2]).one("form")
    assert (form.attributes["method"], form.attributes["action"]) == ("get", "/trace/guests")
    assert [(one.attributes["name"], "required" in one.attributes) for one in form.all("input")] == [
        ("id", True),
        ("day", False),
    ]
    status, headers, text = asked(server, "/trace/guests?id=3")
    assert status == 200 and "form-action 'self'" in headers["content-security-policy"]
    page = parsed(text)
    assert page.one("input", name="id").attributes["value"] == "3" and not page.all("script"), (
        "a trace is not asked for again"
    )
    assert "id=3: the table has no such row: its changes are in quarantine." in page.text
    [change] = next(t for t in page.all("table") if t.one("caption").text == "Changes").one("tbody").all("tr")
    assert change.text.startswith(f"1 rejected 1 {key(1)} ") and "room: '0'" in change.text
    assert '"name": "***"' in page.text and "Secret Name" not in text
    present = parsed(asked(server, "/trace/guests?id=1")[2]).text
    assert "id=1: the table has the row, by change 1." in present
    assert "no ingested window has a change of it" in asked(server, "/trace/guests?id=nobody")[2]
    assert asked(server, "/trace/guests")[0] == 200


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("id=", "the key lacks 'id'"),
        ("=Secret+Name", "the key lacks 'id'"),
        ("name=Secret+Name", "'name' is no column of the key"),
        ("id=%3Cb%3E&id=1", "'id' is given twice"),
    ],
)
def test_a_key_that_names_no_row_is_refused_in_a_sentence(
    loaded: tuple[House, PageServer], query: str, says: str
) -> None:
    status, _, text = asked(loaded[1], f"/trace/guests?{query}")
    assert status == 400 and says in parsed(text).text and "write incload trace guests id=VALUE" in text
    assert "Secret" not in text and "<b>" not in text and "Traceback" not in text


def test_a_log_that_cannot_be_read_takes_nothing_else_from_a_tables_page(
    loaded: tuple[House, PageServer], tmp_path: Path
) -> None:
    h = loaded[0]
    lake = Lake(str(shutil.copytree(h.lake.root, tmp_path / "lake")))
    for file in (tmp_path / "lake" / "_changes" / "guests").rglob("_kind=rejected/*.parquet"):
        file.unlink()
    with served(looks(h.instance, {"guests": h.table}, lake), LoadsTable(lake)) as server:
        status, _, text = asked(server, "/table/guests")
        assert status == 200 and "guests: rejected rows: it cannot be read now" in text and "ContractViolation" in text
        status, _, text = asked(server, "/trace/guests?id=3")
        assert status == 503 and "guests: the trace of a row: it cannot be read now" in text

"""What a person does, for every write strategy and kind of source: each command on a healthy table, and on its fault.

A command that only looks changes nothing but what it says; one that changes a table makes the rows written down in
:mod:`tests.conformance.kinds`; and on the fault that it is for, it names it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.main import get_command

from incload_assets import assets as public
from incload_assets.cli.program import program
from incload_assets.declaration.source import Source
from incload_assets.declaration.write import Write
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.page_server import looks
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.platform.wording import several
from tests.conformance.kinds import D1, D2, D3, OF_SOURCES, OF_WRITES, SOURCES, TRIED_BY_TESTS_OF_THEIR_OWN, Kind
from tests.conformance.project import Project, project_in
from tests.conformance.questions import ASKED_IN_STEPS, HEALTHY, TRIED_ELSEWHERE
from tests.sources.case import Case, Place
from tests.support.documents import PROJECT
from tests.support.pages import asked, served

KINDS = [*OF_WRITES, *OF_SOURCES]
BY_DAY = ("merge", "merge in buckets", "merge by partition", "merge with soft deletes", "merge of partial changes")
"""A walk takes minutes: by day those of the strategy that most tables have."""
WALKED = [pytest.param(kind, marks=[] if kind.name in BY_DAY else [pytest.mark.night]) for kind in KINDS]
ALL = [D1, D2, D3]
TABLE, LOG = "items", "_changes/items"
OF_A_LOAD = {"_audit", LOG, "dagster", TABLE}


class Person:
    """Somebody at a terminal, before one table."""

    def __init__(self, project: Project, kind: Kind, case: Case) -> None:
        self.project, self.kind, self.case = project, kind, case

    def rows(self) -> set[tuple[Any, ...]]:
        """What the table holds."""
        return self.project.rows(TABLE, self.kind.columns)

    def status(self) -> dict[str, Any]:
        """What ``incload status`` says of the table."""
        [found] = json.loads(self.project.do("status", TABLE, "--json").out)
        return dict(found)

    def says(self, *command: str) -> tuple[int, str]:
        """Exit code and output of a command."""
        done = self.project.ask(*command)
        return done.code, done.out + done.err

    def fates(self) -> list[str]:
        """What became of each change of the row that is traced."""
        found = json.loads(self.project.do("trace", TABLE, *self.kind.key, "--json").out)
        return [change["fate"] for change in found["changes"]]

    def load_all(self) -> None:
        """Load everything: two days at once, and one more; a derived table follows the one that it is made of."""
        for window in (f"{D1}..{D2}", D3):
            *upstream, last = self.project.tables
            for name in upstream:
                self.project.do("load", name, "--partitions", window)
            changed = ("--all-missing",) if upstream and window == D3 else ("--partitions", window)
            self.project.do("load", last, *changed)


@pytest.fixture(params=WALKED, ids=lambda kind: kind.name)
def person(
    request: pytest.FixtureRequest,
    spark_settings: Settings,
    spark_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Person]:
    kind: Kind = request.param
    with open_session(spark_settings) as spark:
        place = Place(tmp_path, spark, monkeypatch, request)
        with place.closing:
            project = project_in(tmp_path, spark_url, monkeypatch)
            case = kind.source(place)
            project.declare(kind.assets(case.source()))
            case.fill(kind.rows)
            yield Person(project, kind, case)


@pytest.mark.timeout(1200)
def test_each_command_says_nothing_wrong_of_a_healthy_table_and_names_the_fault_that_it_is_for(person: Person) -> None:
    person.load_all()
    assert person.rows() == person.kind.held
    look_at_everything(person)
    return_and_go_on(person)
    decide_about_rejected_rows(person)
    pause_and_resume(person)
    lose_what_dagster_knows(person)
    change_the_table_behind_the_loads(person)


def look_at_everything(person: Person) -> None:
    """Each command that changes no table finds nothing wrong, and changes what it says."""
    project, before = person.project, person.project.stand()
    wrong = []
    for question in HEALTHY:
        code, says = person.kind.answers.get(question.command, (question.code, question.says))
        key = " ".join(person.kind.key)
        done = project.ask(*question.command.replace("KEY", key).split())
        now = project.stand()
        changed = {path for path in now.changed(before) if not path.startswith("_shadow/")}
        if done.code != code or says.replace("KEY", key) not in done.out + done.err:
            wrong.append(f"expected {code} and {says!r}: {done}")
        if changed - question.changes:
            wrong.append(f"changed {sorted(changed)}: {done}")
        before = now
    assert not wrong, "\n".join(wrong)
    status = person.status()
    assert {name: status[name] for name in ("loaded", "missing", "failed", "drifted", "rows", "left_out")} == {
        "loaded": ALL, "missing": [], "failed": [], "drifted": [], "rows": len(person.kind.held), "left_out": [],
    }  # fmt: skip
    assert person.fates() == list(person.kind.fates)
    look_at_pages(person)


def look_at_pages(person: Person) -> None:
    """Each page of the dashboards shows the table, or at least is there."""
    project = person.project
    with (
        project.instance() as instance,
        served(looks(instance, project.tables, project.lake), LoadsTable(project.lake)) as server,
    ):
        for path in ("/", "/on-call", "/debug", f"/table/{TABLE}"):
            status, _, text = asked(server, path)
            assert (status, TABLE in text) == (200, True), path


def return_and_go_on(person: Person) -> None:
    """An undo of a window, and of all since an instant, makes the table of before; a release makes that of now."""
    project, kind = person.project, person.kind
    [third] = [load for load in json.loads(project.do("history", TABLE, D3, "--json").out) if load["landing"]]
    for how in (("--partitions", D3), ("--before", third["asked_at"])):
        before = project.stand()
        project.do("undo", TABLE, *how, "--because", "a test")
        assert project.stand().changed(before) <= {*OF_A_LOAD, f"_former/{TABLE}"}
        assert person.rows() == kind.undone
        assert {*person.status()["holds"]} == {D3}
        nothing_wrong(person)
        assert "up to date" in project.do("load", TABLE, "--all-missing").out
        project.do("release", TABLE, "--partitions", D3, "--because", "a test")
        assert person.rows() == kind.held
    nothing_wrong(person)


def decide_about_rejected_rows(person: Person) -> None:
    """A replay changes nothing, a discard no row, and what is accepted is in the table, until that is taken back."""
    project, kind = person.project, person.kind
    rows = several(kind.rejected, "row")
    replayed = f"validated {several(kind.rejected, 'rejected row')} again; 0 pass, {kind.rejected} stay rejected."
    if "replay" in kind.answers:
        for command in (("replay", TABLE), ("accept", TABLE, "--because", "a test")):
            code, says = person.says(*command)
            assert (code, kind.answers["replay"][1] in says) == (kind.answers["replay"][0], True), says
        return
    assert replayed in project.do("replay", TABLE).out
    assert person.rows() == kind.held
    before = project.stand()
    code, says = person.says("discard", TABLE, "--because", "a test")
    assert (code, "--yes" in says, project.stand().changed(before)) == (1, True, set()), says
    discarded = project.do("discard", TABLE, "--because", "a test", "--yes").out
    assert project.stand().changed(before) == {"_audit", "_decisions"}
    assert f"discarded {rows}" in discarded
    assert "no open rejected row matches" in project.do("accept", TABLE, "--because", "a test").out
    number = discarded.rpartition("--undo ")[2].split()[0]
    assert f"{rows} open again" in project.do("discard", TABLE, "--undo", number, "--because", "a test").out
    accepted = project.do("accept", TABLE, "--because", "a test").out
    assert f"{kind.rejected} pass, 0 stay rejected." in accepted
    assert person.rows() == kind.accepted
    nothing_wrong(person)
    number = accepted.rpartition("--undo ")[2].split()[0]
    project.do("accept", TABLE, "--undo", number, "--because", "a test")
    assert person.rows() == kind.held
    nothing_wrong(person)


def pause_and_resume(person: Person) -> None:
    """A paused table is not loaded, and everybody sees why."""
    project, before = person.project, person.project.stand()
    project.do("pause", TABLE, "--until", "2h", "--because", "a migration")
    code, says = person.says("load", TABLE, "--all-missing")
    assert (code, "a migration" in says) == (1, True)
    assert "a migration" in project.do("status").out
    project.do("resume", TABLE)
    assert project.stand().changed(before) == {"_audit"}


def lose_what_dagster_knows(person: Person) -> None:
    """A backup brings it back, a rebuild proves it from the table; a row that was deleted by hand is not proven."""
    project = person.project
    known = project.stand().green
    project.do("backup", "--to", "saved")
    [*_, archive] = sorted((project.root / "saved").iterdir())
    project.lose_dagsters_storage()
    for command in ("doctor", "status"):
        code, says = person.says(command)
        assert (code, "incload rebuild" in says) == (1, True), says
    project.do("restore-instance", str(archive), "--yes")
    assert project.stand().green == known
    project.lose_dagsters_storage()
    key = person.kind.key[0].removeprefix("id=")
    DeltaTable(project.lake.table_uri([TABLE])).delete(f"id = '{key}'")
    code, says = person.says("rebuild", TABLE)
    assert (code, "not proven" in says) == (1, True), says
    code, says = person.says("trace", TABLE, *person.kind.key)
    assert code == 1, says
    project.do("load", TABLE, "--partitions", f"{D1}..{D3}")
    assert person.rows() == person.kind.held
    for other in {*project.tables} - {TABLE}:
        project.do("rebuild", other)
    nothing_wrong(person)


def change_the_table_behind_the_loads(person: Person) -> None:
    """A table that was rolled back is named with its partitions by whoever looks, and the next load repairs it."""
    project = person.project
    DeltaTable(project.lake.table_uri([TABLE])).restore(0)
    code, says = person.says("doctor")
    assert (code, D1 in says) == (1, True), says
    assert person.status()["undone"].keys() == set(ALL)
    assert "no longer in the table" in person.says("status", TABLE)[1]
    code, says = person.says("check", TABLE)
    assert code == 1 and "rollback       failed" in says, says
    project.do("load", TABLE, "--all-missing")
    assert person.rows() == person.kind.held
    nothing_wrong(person)


def nothing_wrong(person: Person) -> None:
    """Doctor and trace agree with the table."""
    person.project.do("doctor")
    person.project.do("trace", TABLE, *person.kind.key)


def test_no_write_strategy_kind_of_source_or_command_is_forgotten() -> None:
    named = [value for value in vars(public).values() if isinstance(value, type)]
    assert {type(kind.write) for kind in OF_WRITES} == {value for value in named if issubclass(value, Write)}
    sources = {value for value in named if issubclass(value, Source) and value is not Source}
    assert sources <= {*SOURCES, *TRIED_BY_TESTS_OF_THEIR_OWN}
    assert {*SOURCES.values()} <= {kind.name for kind in KINDS}
    commands: set[str] = set(get_command(program).commands)
    asked_of = {question.command.split()[0] for question in HEALTHY}
    assert asked_of | ASKED_IN_STEPS | set(TRIED_ELSEWHERE) == commands
    for name, place in TRIED_ELSEWHERE.items():
        assert f'"{name}"' in (PROJECT / place).read_text(), (name, place)

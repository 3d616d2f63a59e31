"""Messages about tables: one for each change of a state, through a real sensor, a real HTTP and a real SMTP server."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Freshness
from incload_assets.assets.incremental import table_of
from incload_assets.automation.pace import Pace
from incload_assets.automation.watching import Watching
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.window import now
from incload_assets.monitoring import notify_sensor as module
from incload_assets.platform.settings import Settings
from incload_assets.progress.observed import Observed, observed_tables
from incload_assets.progress.pause import pause, resume
from incload_assets.progress.silence import silence, unsilence
from tests.support.load_history import seen, tick
from tests.support.receivers import Posts, mail_receiver, posts_receiver
from tests.support.workshop import Workshop, day, items_asset

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TOKEN, PASSWORD = "T0K3N-of-the-webhook", "p4ssw0rd-of-the-mail"
LAST = 14


@dataclass
class Office:
    """A table whose sensor is evaluated, and the channels."""

    workshop: Workshop
    posts: Posts
    mails: list[EmailMessage]
    commands: list[str]
    later: timedelta = timedelta(0)
    cursor: str | None = None
    said: list[str] = field(default_factory=list)
    watching: Watching = field(init=False)
    repositories: dict[tuple[dg.AssetsDefinition, ...], dg.RepositoryDefinition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watching = Watching({self.workshop.table: 1})

    def notified(self, *others: dg.AssetsDefinition, after: timedelta = 3 * MINUTE) -> list[str]:
        """What Slack got by a tick of the sensor, some time after the one before; the sensor ticked first."""
        self.later += after
        if others not in self.repositories:
            definitions = incremental_definitions([self.workshop.asset, *others], Settings())
            self.repositories[others] = definitions.get_repository_def()
        for one in self.watching:
            one.due, one.pace = 0.0, Pace()
        self.watching.tick(dg.build_sensor_context(self.workshop.instance, resources={"lake": self.workshop.lake}))
        tick(self.workshop.instance, self.workshop.table, self._observed())
        before = len(self.posts.texts(f"/{TOKEN}"))
        result = self._tick(module.NAME, others, self.cursor)
        self.cursor = result.cursor
        self.said.append(result.skip_message or "")
        return self.posts.texts(f"/{TOKEN}")[before:]

    def _tick(self, sensor: str, others: tuple[dg.AssetsDefinition, ...], cursor: str | None) -> Any:
        repository = self.repositories[others]
        with dg.build_sensor_context(
            instance=self.workshop.instance,
            repository_def=repository,
            cursor=cursor,
            resources={"lake": self.workshop.lake},
        ) as context:
            return repository.get_sensor_def(sensor).evaluate_tick(context)

    def _observed(self) -> Observed:
        return observed_tables(self.workshop.instance, [self.workshop.table])["items"]

    def load(self, number: int, cause: str | None = None, value: str = "a") -> None:
        self.workshop.write(number, value)
        for request in self.workshop.requests():
            self.workshop.run(request, cause=cause)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    for name in ("landing", "home"):
        (tmp_path / name).mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        yield Workshop(tmp_path, instance, items_asset(freshness=Freshness(within=HOUR)))


@pytest.fixture
def office(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    with posts_receiver() as posts, mail_receiver() as (port, mails, commands):
        folder = workshop.folder / "secrets"
        folder.mkdir(mode=0o700)
        for name, secret in (("slack", f"{posts.url}/{TOKEN}"), ("mail", PASSWORD)):
            (folder / name).write_text(secret)
            (folder / name).chmod(0o600)
        for name, value in {
            "SECRET_FOLDER": str(folder),
            "NOTIFY_SLACK_URL": "secret:slack",
            "NOTIFY_EMAIL": "ada@example.org, grace@example.org",
            "NOTIFY_SMTP": f"smtp://incload@127.0.0.1:{port}",
            "NOTIFY_SMTP_PASSWORD": "secret:mail",
            "DASHBOARD_URL": "http://127.0.0.1:3070",
        }.items():
            monkeypatch.setenv(f"INCLOAD_{name}", value)
        office = Office(workshop, posts, mails, commands)
        monkeypatch.setattr(module, "now", lambda: now() + office.later)
        office.load(1)
        yield office


def test_a_table_is_told_once_when_it_is_late_once_when_it_fails_and_once_when_it_is_repaired(office: Office) -> None:
    assert office.notified() == []  # for two minutes it may still become right
    [late] = office.notified()
    assert late.startswith("incload: 1 late: items\n- items late: its latest due window has been overdue for ")
    assert late.endswith("http://127.0.0.1:3070/table/items")
    assert office.notified() == office.notified() == []

    office.load(LAST, cause="contract")
    assert office.notified() == []
    [failed] = office.notified()
    assert failed.startswith(
        f"incload: 1 failed: items\n- items failed: windows wait for a person: {day(LAST)} (too many"
    )
    assert office.notified() == []

    office.load(LAST, value="b")
    [repaired] = office.notified()
    assert repaired.startswith("incload: 1 repaired: items\n- items repaired: it was late since 2026-")
    assert " and failed since 2026-" in repaired
    assert office.notified() == []
    assert [mail["Subject"] for mail in office.mails] == [text.split("\n")[0] for text in (late, failed, repaired)]
    assert office.mails[0].get_content().splitlines() == late.splitlines()
    assert office.mails[0]["To"] == "ada@example.org, grace@example.org"
    assert any(command.startswith("AUTH PLAIN") for command in office.commands)


def test_a_channel_that_is_down_gets_everything_in_one_message_when_it_is_back_and_no_secret_is_said(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    other = items_asset(name="other", freshness=Freshness(within=HOUR))
    low = items_asset(name="low", freshness=Freshness(within=HOUR), criticality="low")
    for asset in (other, low):
        table = table_of(asset)
        assert table is not None
        tick(office.workshop.instance, table, seen(now(), verdict="late", overdue=60.0))
    office.posts.status = 500
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            assert office.notified(other, low) == []
        assert len(office.mails) == 1 and office.mails[0]["Subject"] == "incload: 2 late: items, other"
        office.load(LAST)
        office.posts.status = 302
        office.notified(other, low)
        office.posts.status = 200
        [told] = office.notified(other, low)
    assert told.split("\n")[0] == "incload: 2 late: items, other; 1 repaired: items"
    assert [line.split(":")[0] for line in told.split("\n")[1:]] == ["- items late", "- other late", "- items repaired"]
    assert office.notified(other, low) == [] and len(office.mails) == 2
    assert office.said[1:3] == [
        "slack: 2 notices not sent yet: HTTPError 500. Remedy: check the address and the credentials of this channel; "
        "e-mail: 2 notices sent",
        "slack: 2 notices not sent yet: HTTPError 500. Remedy: check the address and the credentials of this channel",
    ]
    assert office.posts.bodies[-1][0] != "/elsewhere"
    everything = [caplog.text, *office.said, office.cursor, told, *map(str, office.mails), repr(Settings())]
    stored = [file.read_bytes() for file in (office.workshop.folder / "home").rglob("*") if file.is_file()]
    assert not [text for text in everything if text and (TOKEN in text or PASSWORD in text)]
    assert not [content for content in stored if TOKEN.encode() in content or PASSWORD.encode() in content]


@pytest.mark.parametrize("planned", ["paused", "silenced", "all silenced"])
def test_planned_work_sends_nothing_and_what_is_still_wrong_at_its_end_is_told(office: Office, planned: str) -> None:
    lake, until = office.workshop.lake, now() + 24 * HOUR
    begin, end = _planned(lake, until)[planned]
    begin()
    assert [office.notified() for _ in range(3)] == [[], [], []]
    end()
    assert office.notified() == []
    [late] = office.notified()
    assert late.startswith("incload: 1 late: items\n")
    begin()
    office.load(LAST) if planned != "paused" else None
    assert [office.notified() for _ in range(2)] == [[], []]
    end()
    office.load(LAST)
    [repaired] = office.notified()
    assert repaired.startswith("incload: 1 repaired: items\n")


def _planned(lake: Any, until: Any) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    return {
        "paused": (lambda: pause(lake, "items", until, "why"), lambda: resume(lake, "items")),
        "silenced": (lambda: silence(lake, ["items"], until, "why"), lambda: unsilence(lake, ["items"])),
        "all silenced": (lambda: silence(lake, [], until, "why"), lambda: unsilence(lake)),
    }


def test_without_a_channel_there_is_no_sensor(workshop: Workshop) -> None:
    sensors = workshop.definitions().get_repository_def().sensor_defs
    assert module.NAME not in {sensor.name for sensor in sensors}


def test_a_webhook_gets_the_notices_as_data(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_NOTIFY_WEBHOOK_URL", f"{office.posts.url}/hook")
    office.notified()
    office.notified()
    [body] = [body for path, body in office.posts.bodies if path == "/hook"]
    assert [(one["table"], one["state"]) for one in body["notices"]] == [("items", "late")]

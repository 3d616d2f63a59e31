"""More than 500 partitions are requested only after a person has said so."""

import os
import pty
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.assets.incremental import table_of
from incload_assets.cli.support.loads import ask_if_many
from incload_assets.cli.support.project import Project
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from tests.conformance.project import project_in
from tests.support.workshop import items_asset

DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2025-06-01")
KEYS = DAYS.get_partition_keys()
ITEMS = items_asset(partitions_def=DAYS)
TABLE = table_of(ITEMS)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def loaded(number: int, seconds: float) -> LoadRow:
    return LoadRow(
        table="items",
        window=f"{number}",
        window_start=AT,
        window_end=AT,
        due_at=AT,
        outcome="loaded",
        ended_at=AT + timedelta(minutes=number),
        instance="elsewhere",
        event=number,
        run_id="run",
        seconds=seconds,
    )


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., None]:
    """Asks about the first partitions of a table."""
    project = Project(dg.Definitions(), dg.DagsterInstance.ephemeral(), {}, Settings(home=tmp_path))
    return lambda count, **more: ask_if_many(project, TABLE, KEYS[:count], "load", yes=False, **more)


@contextmanager
def typed(text: str, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has a person at a terminal type something."""
    person, terminal = pty.openpty()
    os.write(person, f"{text}\n".encode())
    with os.fdopen(person, "w"), os.fdopen(terminal) as file, patch.context() as patched:
        patched.setattr(sys, "stdin", file)
        yield


def test_the_question_has_number_first_last_and_the_time_by_the_last_loads(
    tmp_path: Path, ask: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(500)
    with typed("yes", monkeypatch):
        ask(501)
    about = "items: load of 501 partitions (from 2024-01-01 to 2025-05-15)"
    assert capsys.readouterr().out == (
        f"{about}; how long they take is not known, as there was no load yet\nTo go on, type yes: "
    )
    rows = [loaded(number, seconds) for number, seconds in enumerate((1, 0, 12, 20))]
    project = Project(dg.Definitions(), dg.DagsterInstance.ephemeral(), {}, Settings(home=tmp_path))
    assert LoadsTable(project.lake).append(rows, after=0)
    with typed("no", monkeypatch), pytest.raises(IncrementalLoadError, match="what was typed is not yes"):
        ask(501)
    assert f"{about}; about 1 h 40 min, as one took 12 s (median of 3 loads)\n" in capsys.readouterr().out


def test_without_a_terminal_it_is_refused_and_yes_says_that_it_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_in(tmp_path, "sc://localhost:1", monkeypatch)
    project.declare([ITEMS])
    refused = project.ask("load", "items", "--partitions", "2024-01-01..2025-05-15")
    assert (refused.code, refused.err) == (
        1,
        "Error: items: load of 501 partitions (from 2024-01-01 to 2025-05-15) asks before it goes on, and its input is "
        "no terminal. Rule: more than 500 partitions at once are confirmed by a person first; nothing was loaded. "
        "Remedy: see what it would do at a terminal; a script adds --yes.\n",
    )
    assert project.stand().runs == 0

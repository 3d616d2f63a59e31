"""Erasures that die, loads that run beside them, and what an erasure refuses."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test  # has no public name
from pyspark.errors import PySparkException

from incload_assets.change_log.lake_errors import lost_file
from incload_assets.erasure import erase as erase_module
from incload_assets.erasure import erase_rows as rows_module
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import fingerprints_of
from incload_assets.ingest import ingest as ingest_module
from incload_assets.load import revision as revision_module
from incload_assets.platform.errors import ConcurrentLoad, DeclarationError, IncrementalLoadError, SourceUnreadable
from incload_assets.progress.audit import chain_of
from incload_assets.progress.pause import pause_of
from incload_assets.writes.merge import Merge
from tests.erasure.test_erase import (
    ANNA,
    BERT,
    CONTENT,
    Declare,
    declared,
    erase,
    key,
    loaded,
    remains,
    without_anna,
    write,
)
from tests.support.tables import Loaded

__all__ = ["declared", "key"]


class Killed(BaseException):
    """What no handler of errors expects."""


def dying(at: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that dies when it is called for the given time, counted from 1."""
    calls = []

    def call(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == at:
            raise Killed
        return function(*args, **options)

    return call


DEATHS = {
    "before the barrier": (erase_module, "raise_barrier", 1),
    "after a landing": (rows_module, "apply_changes", 2),
    "after a merge": (revision_module, "commit", 2),
    "before merges are called off": (rows_module, "call_off_all_merges", 1),
    "between the versions of table and log": (erase_module, "remove_old_versions", 2),
    "before the proof": (erase_module, "decisions_uri", 1),
}


@pytest.fixture
def oracle(tmp_path: Path, declared: Declare) -> Loaded:
    write(tmp_path / "oracle", {number: without_anna(rows) for number, rows in CONTENT.items()})
    return loaded(declared("oracle"), 1, 2, 3)


@pytest.fixture
def table(tmp_path: Path, declared: Declare) -> Loaded:
    write(tmp_path / "all", CONTENT)
    return loaded(declared("all"), 1, 2, 3)


@pytest.mark.parametrize("death", DEATHS)
def test_an_erasure_that_dies_is_completed_by_the_next_one_whatever_is_loaded_in_between(
    death: str, table: Loaded, oracle: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, at = DEATHS[death]
    with monkeypatch.context() as patched:
        patched.setattr(module, name, dying(at, getattr(module, name)))
        with pytest.raises(Killed):
            erase(table)
    failed = chain_of(table.lake).entries[-1]
    assert (failed.action, failed.because, failed.details["kind"]) == ("erase", "asked for", "person")
    assert (failed.details["failed"], failed.details["at"].startswith("items")) == ("Killed", True)
    loaded(table, 1, 2, 3)  # each load proves that log and table agree
    made = erase(table)
    assert made.is_proven, [*made.lines()]
    assert remains(table.lake.root) == []
    assert table.rows() == oracle.rows()
    assert pause_of(table.lake, "items") is None


def test_a_load_that_has_staged_rows_of_the_person_starts_again_without_them(
    tmp_path: Path, table: Loaded, oracle: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "all", {1: [*CONTENT[1], {"id": "h", "person": ANNA, "seq": 41, "state": "open"}]})
    commit, seen = ingest_module.commit, []

    def late(*args: Any, **options: Any) -> bool:
        if not seen:
            seen.append(erase(table))
        return commit(*args, **options)

    monkeypatch.setattr(ingest_module, "commit", late)
    report = table.load(1)
    assert seen and report.evidence.erased == 4
    assert table.rows() == oracle.rows()
    assert remains(table.lake.root) == []


def test_a_merge_that_was_planned_before_an_erasure_does_not_bring_the_person_back(
    table: Loaded, oracle: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, seen = Merge.apply, []

    def late(self: Merge, *args: Any, **options: Any) -> Any:
        if not seen:
            seen.append(None)
            seen.append(erase(table))
        return apply(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Merge, "apply", late)
        with pytest.raises(PySparkException) as gone:
            table.load(2)
    known = lost_file(gone.value, table.table, table.lake)
    assert isinstance(known, ConcurrentLoad), "its run is tried again"
    assert len(seen) == 2
    assert remains(table.lake.root) == []
    table.load(2)
    assert table.rows() == oracle.rows()
    assert remains(table.lake.root) == []


_KILLED = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
import dagster as dg
from pyspark.sql import SparkSession
from incload_assets.erasure import erase_rows
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import fingerprints_of
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import Quarantine
from incload_assets.sources.files.files import Files
from tests.erasure.test_erase import ANNA, Order
from tests.support.tables import make

folder, url = sys.argv[1:]
spark = SparkSession.builder.remote(url).create()
source = Files(folder + "/all/{window:%Y-%m-%d}.json")
table = make(spark, Path(folder) / "lake-all", source=source, contract=Order,
             subject=Subject("person", by="person"), quarantine=Quarantine(max_share=0.9))
erase_rows.apply_changes = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
found = fingerprints_of([table.table], "person", ANNA)
with dg.DagsterInstance.ephemeral() as instance:
    Eraser(spark, table.lake, [table.table], "person", found).erase(instance, because="asked for")
"""


@pytest.mark.slow
def test_an_erasure_whose_process_was_killed_leaves_the_table_paused_and_the_next_one_ends_the_pause(
    tmp_path: Path, table: Loaded, oracle: Loaded, spark_url: str
) -> None:
    environment = os.environ | {"INCLOAD_KEY_ERASURE": "k" * 40}
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path), spark_url], env=environment, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert remains(table.lake.root)
    paused = pause_of(table.lake, "items")
    assert paused is not None and paused.because == "a person is erased: asked for"
    with pytest.raises(IncrementalLoadError, match="if it has died, repeat it first"):
        erase(table, BERT)
    assert erase(table).is_proven
    assert pause_of(table.lake, "items") is None
    assert table.rows() == oracle.rows()
    assert remains(table.lake.root) == []


def test_while_a_person_is_erased_the_erasure_of_another_one_is_refused(tmp_path: Path, declared: Declare) -> None:
    write(tmp_path / "all", CONTENT)
    table, told = loaded(declared("all"), 1), list[str]()

    def beside(step: str) -> None:
        if not told:
            told.append(step)
            with pytest.raises(
                IncrementalLoadError,
                match=r"items: another person is being erased from it; it is paused by .*: a person is erased",
            ):
                erase(table, BERT)
            assert pause_of(table.lake, "items") is not None

    found = fingerprints_of([table.table], "person", ANNA)
    eraser = Eraser(table.spark, table.lake, [table.table], "person", found, info=beside)
    with dg.instance_for_test() as instance:
        assert eraser.erase(instance, because="asked for").is_proven
    assert told and pause_of(table.lake, "items") is None
    assert erase(table, BERT).is_proven
    assert table.rows() == set()


def test_an_erasure_refuses_what_it_could_not_finish_and_leaves_no_table_paused(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = table.versions()
    with pytest.raises(
        DeclarationError, match=r"no table has persons of the kind 'customer'; there are: person\. Rule"
    ):
        fingerprints_of([table.table], "customer", ANNA)
    found = fingerprints_of([table.table], "person", ANNA)
    for wrong in ({ANNA}, set[str](), {next(iter(found)).replace(":", "0:")}):
        with pytest.raises(SourceUnreadable, match=r"\d of \d values given are no fingerprints under") as told:
            Eraser(table.spark, table.lake, [table.table], "person", frozenset(wrong)).plan()
        assert ANNA not in str(told.value)
    eraser = Eraser(table.spark, table.lake, [table.table], "person", found, patience=timedelta(0))
    with dg.instance_for_test() as instance:
        run = create_run_for_test(
            instance, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset([table.table.key])
        )
        with pytest.raises(
            IncrementalLoadError, match=rf"items: runs .* under way: {run.run_id}\. Rule: .*Remedy: wait"
        ):
            eraser.erase(instance)
        assert pause_of(table.lake, "items") is None
        copy = Path(table.lake.root) / "_shadow/items/part.parquet"
        copy.parent.mkdir(parents=True)
        copy.touch()
        with pytest.raises(
            IncrementalLoadError, match=r"items has a shadow in .*_shadow/items\. .*incload shadow items --drop"
        ):
            eraser.erase(instance)
        copy.unlink()
    assert table.versions() == versions


def test_loads_stop_where_the_key_of_the_deny_list_is_another_one(
    tmp_path: Path, table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase(table)
    write(tmp_path / "all", {1: CONTENT[1][:2]})
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "another" * 6)
    with pytest.raises(SourceUnreadable, match=r"items: subjects were erased under the key erasure-\w+, here it is"):
        table.load(1)

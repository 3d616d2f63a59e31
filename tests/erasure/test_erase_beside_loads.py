"""Loads that run while a person is erased, and erasures of windows that other loads have left unfinished."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incload_assets.erasure import erase as erase_module
from incload_assets.erasure import erase_rows as rows_module
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import Erasure, fingerprints_of
from incload_assets.ingest import ingest as ingest_module
from incload_assets.protection.erasures import barrier_of
from incload_assets.writes.merge import Merge
from tests.erasure.test_erase import ANNA, BERT, Declare, declared, erase, key, loaded, order, remains, write
from tests.erasure.test_erase_interrupted import Killed, dying
from tests.support.tables import Loaded

__all__ = ["declared", "key"]

HERS, HIS = order("a", ANNA, 11), order("b", BERT, 12)


@pytest.fixture
def table(tmp_path: Path, declared: Declare) -> Loaded:
    """A table in whose first window is a row of the person."""
    write(tmp_path / "all", {1: [order("a", ANNA, 1), order("c", BERT, 2)], 2: [HERS, HIS]})
    return loaded(declared("all"), 1)


def once(function: Callable[..., Any], *, before: Callable[[], Any] | None = None, after: Any = None) -> Any:
    """A function before or after whose first call something happens."""
    calls = []

    def call(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 1 and before is not None:
            before()
        result = function(*args, **options)
        if len(calls) == 1 and after is not None:
            after()
        return result

    return call


def proven(table: Loaded) -> Erasure:
    made = erase(table)
    assert made.is_proven, [*made.lines()]
    return made


def check_without_her(table: Loaded) -> None:
    assert table.rows("id", "person", "seq") == {("b", BERT, 12), ("c", BERT, 2)}
    assert remains(table.lake.root) == []


def test_a_first_load_that_has_staged_rows_of_the_person_starts_again_without_them(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "commit", once(ingest_module.commit, before=lambda: proven(table)))
    assert table.load(2).evidence.erased == 1
    check_without_her(table)


def test_rows_that_were_staged_before_an_erasure_are_not_committed_while_it_searches(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, committed = ingest_module.commit, []

    def late(*args: Any, **options: Any) -> bool:
        if not committed:
            committed.append(None)
            rewritten = once(erase_module.erase_rows, after=lambda: committed.append(commit(*args, **options)))
            with monkeypatch.context() as patched:
                patched.setattr(erase_module, "erase_rows", rewritten)
                proven(table)
            return bool(committed[1])
        return commit(*args, **options)

    monkeypatch.setattr(ingest_module, "commit", late)
    assert table.load(2).evidence.erased == 1
    assert committed == [None, False]
    check_without_her(table)


def test_a_person_who_is_denied_after_a_load_has_read_the_deny_list_is_not_landed(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny_list_of = ingest_module.deny_list_of
    monkeypatch.setattr(ingest_module, "deny_list_of", once(deny_list_of, after=lambda: proven(table)))
    assert table.load(2).evidence.erased == 1
    check_without_her(table)


def test_a_load_whose_staged_files_are_removed_with_old_versions_starts_again(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven(table)
    eraser = Eraser(table.spark, table.lake, [table.table], "person", fingerprints_of([table.table], "person", ANNA))
    log = table.lake.log_uri(["items"])
    removing = once(ingest_module.commit, before=lambda: eraser._without_old_versions(log))
    monkeypatch.setattr(ingest_module, "commit", removing)
    table.load(2)
    check_without_her(table)


def test_an_erasure_raises_the_barriers_of_table_and_log_before_it_removes_their_files(table: Loaded) -> None:
    def barriers() -> list[int]:
        both = [table.lake.delta(uri) for uri in table.versions()]
        return [barrier_of(delta) for delta in both if delta is not None]

    proven(table)
    assert barriers() == [1, 2]
    proven(table)
    assert barriers() == [2, 4]


def test_an_erasure_that_dies_before_a_merge_is_completed_by_the_next_one_alone(
    tmp_path: Path, table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "all", {3: [order("k", BERT, 31), order("k", ANNA, 32, op="d")]})
    loaded(table, 3)
    assert ("k",) not in table.rows("id")
    with monkeypatch.context() as patched:
        patched.setattr(rows_module, "apply_changes", dying(2, rows_module.apply_changes))  # of the second window
        with pytest.raises(Killed):
            erase(table)
    proven(table)
    assert table.rows("id", "seq") == {("c", 2), ("k", 31)}


def test_a_load_between_two_erasures_keeps_the_markers_of_the_first_whatever_its_checkpoint_says(
    tmp_path: Path, table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "all", {3: [order("k", ANNA, 35, op="d")], 4: [order("k", BERT, 34)]})
    loaded(table, 4)
    report = table.load(3)
    with monkeypatch.context() as patched:
        patched.setattr(rows_module, "apply_changes", dying(2, rows_module.apply_changes))
        with pytest.raises(Killed):
            erase(table)
    write(tmp_path / "all", {3: [order("k", BERT, 31)]})
    table.replay(report)
    assert table.rows("id", "seq") == {("c", 2), ("k", 34)}
    proven(table)
    assert table.rows("id", "seq") == {("c", 2), ("k", 34)}


def test_an_erasure_keeps_the_markers_of_a_load_that_was_killed_before_its_merge(
    tmp_path: Path, table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "all", {1: [order("a", ANNA, 1), HIS]})
    with monkeypatch.context() as patched:
        patched.setattr(Merge, "apply", dying(1, Merge.apply))
        with pytest.raises(Killed):
            table.load(1)
    assert ("c",) in table.rows("id")
    proven(table)
    assert table.rows("id", "seq") == {("b", 12)}


def test_a_window_that_is_loaded_while_its_markers_are_about_to_be_removed_keeps_its_record(
    tmp_path: Path, table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []

    def rewritten() -> None:
        write(tmp_path / "all", {1: [HIS, order("c", BERT, 2)]})
        reports.append(table.load(1))

    monkeypatch.setattr(rows_module, "apply_changes", once(rows_module.apply_changes, after=rewritten))
    proven(table)
    check_without_her(table)
    assert not table.replay(reports[0]).ingested


def test_a_merge_that_is_sent_after_the_last_landing_of_an_erasure_is_refused(
    tmp_path: Path, table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "all", {2: [order("c", ANNA, 11), HIS]})  # a key of both, whose markers are not hers alone
    apply, sent = Merge.apply, []

    def sweep_then(*args: Any, **options: Any) -> Callable[..., None]:
        return once(rows_module._sweep, after=lambda: sent.append(apply(*args, **options)))

    def late(*args: Any, **options: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(Merge, "apply", dying(1, apply))
            write(tmp_path / "all", {2: [HIS]})
            with pytest.raises(Killed):  # landed, and not merged
                table.load(2)
            patched.setattr(Merge, "apply", apply)
            patched.setattr(rows_module, "_sweep", sweep_then(*args, **options))
            proven(table)
        raise Killed

    monkeypatch.setattr(Merge, "apply", late)
    with pytest.raises(Killed):
        table.load(2)
    assert sent == [None]
    monkeypatch.setattr(Merge, "apply", apply)
    table.load(2)
    check_without_her(table)

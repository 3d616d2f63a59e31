"""The audit is one unbroken chain, whoever writes at once, and shows where anybody has altered it."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from incload_assets.platform.lake import Lake
from incload_assets.progress import audit
from incload_assets.progress.audit import AuditEntry, audit_uri, chain_of, chosen, record

WRITERS, EACH = 3, 5


def many(root: str, name: str) -> None:
    for number in range(EACH):
        record(Lake(root), AuditEntry(action="load", table=name, partitions=[str(number)]))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with five entries."""
    lake = Lake(str(tmp_path))
    for number in range(1, 6):
        record(lake, AuditEntry(action="load", table="orders", details={"number": str(number)}))
    return lake


def test_processes_that_write_at_once_give_one_unbroken_chain(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=many, args=(str(tmp_path), f"t{number}")) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    found = chain_of(Lake(str(tmp_path)))
    assert found.altered is None
    assert [entry.number for entry in found.entries] == list(range(1, WRITERS * EACH + 1))
    for number in range(WRITERS):
        own = [entry.partitions for entry in chosen(found, f"t{number}")]
        assert own == [[str(each)] for each in range(EACH)]


def edited(delta: DeltaTable) -> None:
    delta.update(new_values={"actor": "somebody else"}, predicate="number = 3")


def edited_with_its_hash(delta: DeltaTable) -> None:
    third = chain_of(Lake(str(Path(delta.table_uri).parent))).entries[2]
    forged = AuditEntry(**vars(third) | {"actor": "somebody else"})
    delta.update(new_values={"actor": forged.actor, "hash": forged.hash}, predicate="number = 3")


def removed(delta: DeltaTable) -> None:
    delta.delete("number = 3")


def removed_at_the_end(delta: DeltaTable) -> None:
    delta.delete("number >= 3")


def doubled(delta: DeltaTable) -> None:
    rows = delta.to_pyarrow_table(filters=[("number", "=", 3)])
    write_deltalake(delta, rows, mode="append")


def added_at_the_end(delta: DeltaTable) -> None:
    last = chain_of(Lake(str(Path(delta.table_uri).parent))).entries[-1]
    forged = AuditEntry(**vars(last) | {"number": 6, "before": last.hash})
    write_deltalake(delta, audit._as_arrow(forged), mode="append")


@pytest.mark.parametrize(
    ("alter", "number"),
    [
        (edited, 3),
        (edited_with_its_hash, 3),
        (removed, 3),
        (removed_at_the_end, 3),
        (doubled, 3),
        (added_at_the_end, 6),
    ],
)
def test_an_altered_entry_is_named_however_it_was_altered(
    lake: Lake, alter: Callable[[DeltaTable], None], number: int
) -> None:
    assert chain_of(lake).altered is None
    alter(opened(lake))
    found = chain_of(lake).altered
    assert found is not None and found.number == number


def test_after_a_removed_entry_no_other_is_written(lake: Lake) -> None:
    opened(lake).delete("number = 5")
    with pytest.raises(audit.IncrementalLoadError, match="lacks its last entry, 5"):
        record(lake, AuditEntry(action="load"))


def test_files_that_are_put_together_leave_the_chain_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FILES", 4)
    lake = Lake(str(tmp_path))
    for _ in range(6):
        record(lake, AuditEntry(action="load", because="why", details={"a": "b"}, partitions=["2026-01-01"]))
    assert len(opened(lake).file_uris()) == 3
    found = chain_of(lake)
    assert (len(found.entries), found.altered) == (6, None)


def opened(lake: Lake) -> DeltaTable:
    delta = lake.delta(audit_uri(lake))
    assert delta is not None
    return delta

"""Whether the commits since a version left a part of a table alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from incload_assets.delta.commits import LOOKED_AT, Seen, commits_between, leave_alone, seen

OURS, OTHERS = "items/2026-01-02", "a stream"


def write(folder: Path, day: str, *, writer: str | None = OURS) -> None:
    rows = pa.table({"id": [1], "day": [day]})
    known = CommitProperties(app_transactions=[Transaction(writer, 1)]) if writer else None
    write_deltalake(str(folder), rows, partition_by=["day"], mode="append", commit_properties=known)


def seen_in(folder: Path) -> Seen:
    delta = DeltaTable(str(folder))
    found = seen(delta, delta.version())
    assert found is not None
    return found


def left_alone(folder: Path, since: Seen, values: list[str] | None = ["1"], column: str | None = "day") -> bool:  # noqa: B006
    delta = DeltaTable(str(folder))
    commits = commits_between(delta, since, delta.version())
    return commits is not None and leave_alone(commits, writer="items/", column=column, values=values)


def compact(folder: Path) -> None:
    DeltaTable(str(folder)).optimize.compact()


def fence(folder: Path) -> None:
    """A commit of nothing but a transaction identifier."""
    version = DeltaTable(str(folder)).version() + 1
    action = {"txn": {"appId": OURS, "version": version}}
    (folder / "_delta_log" / f"{version:020}.json").write_text(json.dumps(action) + "\n")


def alter(folder: Path) -> None:
    DeltaTable(str(folder)).alter.set_table_properties({"delta.logRetentionDuration": "interval 7 days"})


def load_another(folder: Path) -> None:
    write(folder, "2")


def write_by_hand(folder: Path) -> None:
    write(folder, "2", writer=None)


def stream_into_another(folder: Path) -> None:
    write(folder, "2", writer=OTHERS)


def load_the_same(folder: Path) -> None:
    write(folder, "1")


@pytest.mark.parametrize(
    ("what", "is_alone"),
    [
        (load_another, True), (compact, True), (fence, True),
        (write_by_hand, False), (stream_into_another, False), (load_the_same, False), (alter, False),
    ],
)  # fmt: skip
def test_a_partition_is_left_alone_by_loads_of_others_and_by_commits_without_rows(
    tmp_path: Path, what: Callable[[Path], None], is_alone: bool
) -> None:
    table = tmp_path / "items"
    write(table, "1")
    write(table, "1")
    since = seen_in(table)
    assert left_alone(table, since) and left_alone(table, since, None, None)
    what(table)
    assert left_alone(table, since) is is_alone
    if is_alone:
        assert left_alone(table, since, None) is (what is not load_another), "all partitions are concerned"


def test_a_table_that_was_replaced_by_a_copy_was_not_left_alone_although_its_versions_have_the_same_numbers(
    tmp_path: Path,
) -> None:
    table, copy = tmp_path / "items", tmp_path / "copy"
    write(table, "1")
    shutil.copytree(table, copy)
    write(table, "1")
    since = seen_in(table)
    shutil.rmtree(table)
    shutil.copytree(copy, table)
    assert not left_alone(table, since)
    write(table, "2")
    assert seen_in(table).version == since.version
    assert not left_alone(table, since)


def test_commits_that_are_gone_or_too_many_are_not_believed(tmp_path: Path) -> None:
    table = tmp_path / "items"
    write(table, "1")
    since = seen_in(table)
    for _ in range(LOOKED_AT):
        fence(table)
    assert left_alone(table, since)
    fence(table)
    assert not left_alone(table, since)
    since = seen_in(table)
    fence(table)
    delta = DeltaTable(str(table))
    (table / "_delta_log" / f"{since.version:020}.json").unlink()
    assert commits_between(delta, since, delta.version()) is None
    assert seen(delta, since.version) is None

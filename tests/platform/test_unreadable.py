"""Errors of deltalake about damaged tables become one line with the file, the rule and a remedy that helps."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from incload_assets.platform.errors import LakeUnreadable
from incload_assets.platform.lake import Lake

LOCKED = """
import os, pathlib, sys
from incload_assets.platform.lake import Lake
lake = Lake(sys.argv[1])
pathlib.Path(sys.argv[1], "orders", "_delta_log").chmod(0)
if os.getuid() == 0:
    os.setuid(65534)
try:
    print(lake.delta(lake.table_uri(["orders"])))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of three commits."""
    for number in range(3):
        write_deltalake(str(tmp_path / "orders"), pa.table({"n": [number]}), mode="append")
    return tmp_path / "orders"


def commit(table: Path, number: int) -> Path:
    return table / "_delta_log" / f"{number:020d}.json"


def why(table: Path) -> LakeUnreadable:
    with pytest.raises(LakeUnreadable) as caught:
        Lake(str(table.parent)).expect_readable(str(table))
    assert not any(words in str(caught.value) for words in ("<unknown>", "Kernel", "\n", "\x1b")), str(caught.value)
    assert caught.value.rule and caught.value.remedy
    return caught.value


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


def values(table: Path) -> list[int]:
    delta = Lake(str(table.parent)).delta(str(table))
    assert delta is not None
    return sorted(delta.to_pyarrow_table()["n"].to_pylist())


def test_an_empty_newest_commit_is_named_although_readers_take_it_for_one_without_rows(table: Path) -> None:
    commit(table, 2).write_bytes(b"")
    assert values(table) == [0, 1]
    assert f"{commit(table, 2)}, its newest commit, is cut" in why(table).problem


def test_a_commit_of_the_lakes_own_tables_is_named_if_it_ends_before_its_fence(tmp_path: Path) -> None:
    own = tmp_path / "_decisions"
    for number in (1, 2):
        assert Lake(str(tmp_path)).append(str(own), pa.table({"n": [number]}), "writer", number)
    assert Lake(str(tmp_path)).expect_readable(str(own)) is not None
    newest = max((own / "_delta_log").glob("*.json"))
    newest.write_text("".join(newest.read_text().splitlines(keepends=True)[:-1]))
    assert values(own) == [1, 2], "the fence is lost, and readers do not see it"
    assert f"{newest}, its newest commit, is cut" in why(own).problem


def test_a_torn_newest_commit_is_named_and_removing_it_gives_the_table_before_it(table: Path) -> None:
    cut(commit(table, 2))
    assert f"{commit(table, 2)}, its newest commit, is cut or damaged" in str(why(table))
    commit(table, 2).unlink()
    assert values(table) == [0, 1]


def test_an_older_torn_commit_is_not_to_be_removed(table: Path) -> None:
    cut(commit(table, 1))
    assert f"{commit(table, 1)} is cut or damaged" in why(table).problem
    assert "not to be removed, because later commits build on it" in str(why(table))


def test_a_missing_commit_is_named(table: Path) -> None:
    commit(table, 1).unlink()
    assert f"{commit(table, 1)} is missing" in why(table).problem


@pytest.mark.parametrize(
    ("damage", "says"),
    [(cut, "is cut or damaged"), (Path.unlink, "names a checkpoint that is gone")],
    ids=["cut", "gone"],
)
def test_a_damaged_checkpoint_can_be_removed_if_all_commits_are_there(
    table: Path, damage: Callable[[Path], None], says: str
) -> None:
    DeltaTable(str(table)).create_checkpoint()
    [file] = (table / "_delta_log").glob("*.checkpoint*.parquet")
    damage(file)
    error = why(table)
    assert says in error.problem and "all commits since the first one are there" in str(error.remedy)
    file.unlink(missing_ok=True)
    (table / "_delta_log" / "_last_checkpoint").unlink()
    assert values(table) == [0, 1, 2]


def test_a_folder_with_data_and_no_commits_is_a_damaged_table_and_an_empty_one_is_none(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")
    assert "has no commits in _delta_log, but holds 'part-" in why(table).problem
    shutil.rmtree(table)
    assert Lake(str(table.parent)).expect_readable(str(table)) is None
    table.mkdir()
    assert Lake(str(table.parent)).expect_readable(str(table)) is None


def test_a_folder_without_rights_is_no_missing_table(table: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOCKED, str(table.parent)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(f"LakeUnreadable the Delta table {table} may not be read by this account"), done
    assert "Remedy: give the account read and write rights" in done.stdout and "os error" not in done.stdout

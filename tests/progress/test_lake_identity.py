"""A lake that was copied, swapped or is missing is not taken for the one that was loaded."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.platform.errors import LakeMistaken
from incload_assets.platform.lake import FORMAT, IDENTITY_FOLDER, Lake
from incload_assets.platform.unreadable import LOG_FOLDER
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.lake_identity import adopt_lake, expect_known_lake, known_lake, mistaken
from tests.support.tables import declared


def test_a_lake_gets_one_identity_even_from_several_at_once(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert lake.identity() is None
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: lake.identity(create=True), range(16)))
    assert len(found) == 1 and found == {lake.identity()}


def test_a_copied_a_swapped_and_a_missing_lake_are_refused_until_adopted(tmp_path: Path) -> None:
    table = table_of(declared())
    assert table is not None
    lake, copy, other, empty = (Lake(str(tmp_path / name)) for name in ("lake", "copy", "other", "empty"))
    with dg.DagsterInstance.ephemeral() as instance:
        assert mistaken(instance, table, lake) is None and lake.identity() is None
        expect_known_lake(instance, table, lake)
        expect_known_lake(instance, table, lake)
        shutil.copytree(lake.root, copy.root)
        other.identity(create=True)
        for wrong, said in ((copy, "is at"), (other, "but Dagster's checkpoints are of lake"), (empty, "no identity")):
            with pytest.raises(LakeMistaken, match=said):
                expect_known_lake(instance, table, wrong)
        assert empty.identity() is None and not Path(empty.root).exists()  # nothing is written to it

        former = known_lake(instance, table)
        assert adopt_lake(instance, [table], copy) == {table.name: former}
        assert adopt_lake(instance, [table], copy) == {}
        expect_known_lake(instance, table, copy)
        with pytest.raises(LakeMistaken):
            expect_known_lake(instance, table, lake)


def test_a_lake_is_written_by_the_environment_that_made_it_until_another_one_adopts_it(tmp_path: Path) -> None:
    table = table_of(declared())
    assert table is not None
    root = str(tmp_path / "lake")
    prod, staging, unnamed = (Lake(root, name) for name in ("prod", "staging", ""))
    with dg.DagsterInstance.ephemeral() as instance, dg.DagsterInstance.ephemeral() as another:
        expect_known_lake(instance, table, prod)
        assert (prod.owner(), mistaken(instance, table, prod)) == ("prod", None)
        before = sorted(tmp_path.rglob("*"))
        for wrong, name in ((staging, "the environment staging"), (unnamed, "the environment without a name")):
            said = f"{table.name}: the lake {root} belongs to the environment prod, and this is {name}. Rule: an"
            with pytest.raises(LakeMistaken, match=said):
                expect_known_lake(another, table, wrong)
            with pytest.raises(LakeMistaken, match=r"_audit: the lake .* belongs to the environment prod"):
                record(wrong, AuditEntry(action="pause", table=table.name))
            with pytest.raises(LakeMistaken, match=said):
                LoadContext(None, table, wrong)  # type: ignore[arg-type]
            assert "belongs to the environment prod" in (mistaken(another, table, wrong) or "")
        assert sorted(tmp_path.rglob("*")) == before  # nothing is written
        within = Lake(f"{root}/staging", "staging")
        with pytest.raises(LakeMistaken, match="would be made in the lake of the environment prod"):
            expect_known_lake(another, table, within)
        assert sorted(tmp_path.rglob("*")) == before

        adopt_lake(another, [table], unnamed)
        assert (unnamed.owner(), unnamed.identity()) == ("", prod.identity())
        expect_known_lake(another, table, unnamed)
        with pytest.raises(LakeMistaken, match="belongs to the environment without a name"):
            expect_known_lake(instance, table, prod)


def test_a_lake_of_before_there_were_environments_belongs_to_the_one_without_a_name(tmp_path: Path) -> None:
    marked, unmarked, empty = (Lake(str(tmp_path / name), "") for name in ("marked", "unmarked", "empty"))
    marked.identity(create=True)
    (tmp_path / "unmarked" / LOG_FOLDER).mkdir(parents=True)
    for lake in (marked, unmarked, empty):
        lake.expect_own("orders")
    assert empty.owner() is None and not Path(empty.root).exists()
    for lake in (marked, unmarked):
        with pytest.raises(LakeMistaken, match=r"orders: .* belongs to the environment without a name"):
            Lake(lake.root, "staging").expect_own("orders")
    named = Lake(empty.root, "staging")
    assert named.append(f"{named.root}/_facts", pa.table({"fact": ["new"]}), "facts", 1)  # the first use marks it
    assert named.owner() == "staging"


def test_a_lake_of_a_newer_format_is_refused_and_one_without_a_number_has_the_first(tmp_path: Path) -> None:
    table = table_of(declared())
    assert table is not None
    lake, newer = Lake(str(tmp_path / "lake"), ""), Lake(str(tmp_path / "newer"), "")
    assert (lake.format(), lake.identity(create=True) is not None, lake.format()) == (1, True, FORMAT)
    newer.identity(create=True)
    DeltaTable(f"{newer.root}/{IDENTITY_FOLDER}").alter.set_table_name(f"format {FORMAT + 1}")
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(LakeMistaken, match=f"has format {FORMAT + 1}"):
        expect_known_lake(instance, table, newer)
    with pytest.raises(LakeMistaken, match="install a newer version"):
        LoadContext(None, table, newer)  # type: ignore[arg-type]

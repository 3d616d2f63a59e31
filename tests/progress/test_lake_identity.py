"""A lake that was copied, swapped or is missing is not taken for the one that was loaded."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.assets.incremental import table_of
from incload_assets.platform.errors import LakeMistaken
from incload_assets.platform.lake import Lake
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

"""Keys of persons: one for each person, random, and deleted one by one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.erasure.person_search import files_with_keys
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.protection.erasures import NOBODY, DenyList, fingerprint
from incload_assets.protection.person_keys import MANY, PERSON, compact_keys, forget_persons, keys_of_persons


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "another key of at least 32 characters")


def secrets(root: Path) -> dict[str, bytes]:
    """The stored secrets by fingerprint."""
    rows = DeltaTable(root / "_person_keys").to_pyarrow_table().to_pylist()
    found = {row["fingerprint"]: row["secret"] for row in rows}
    assert len(found) == len(rows), "a person has two keys"
    return found


def test_loads_at_once_give_a_person_one_key(spark_settings: Settings, spark: SparkSession, tmp_path: Path) -> None:
    lake, together = Lake(str(tmp_path / "lake")), Barrier(4)
    rounds = [[fingerprint(f"{turn} {number}") for number in range(10)] for turn in range(3)]

    def made(_: int) -> set[int]:
        counts = set()
        with open_session(spark_settings) as own:
            for people in rounds:
                persons = own.createDataFrame([(one,) for one in people], f"{PERSON} string")
                together.wait(60)
                with keys_of_persons(lake, "person", persons, NOBODY, create=True) as found:
                    counts.add(found.rows.join(persons, PERSON, "left_semi").count())
        return counts

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(made, range(4))) == [{10}] * 4
    assert set(secrets(tmp_path / "lake")) == {one for people in rounds for one in people}


def test_keys_of_persons_are_random_and_deleted_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    first, second = Lake(str(tmp_path / "first")), Lake(str(tmp_path / "second"))
    people = [fingerprint(str(number)) for number in range(20)]
    persons = spark.createDataFrame([(one,) for one in people], f"{PERSON} string")
    for lake in (first, second):
        with keys_of_persons(lake, "person", persons, DenyList(frozenset(people[:2])), create=True):
            pass
    one, other = secrets(tmp_path / "first"), secrets(tmp_path / "second")
    assert set(one) == set(other) == set(people[2:])
    assert not set(one.values()) & set(other.values())
    assert len({secret[at : at + 12] for secret in one.values() for at in (0, 12, 24)}) == 3 * 18
    assert forget_persons(first, "customer", people) == 0, "the same identifier of another kind is another person"
    assert forget_persons(first, "person", people[:5]) == 3
    assert set(secrets(tmp_path / "first")) == set(people[5:])


def test_many_small_files_of_keys_are_put_together_at_night(spark: SparkSession, tmp_path: Path) -> None:
    lake, people = Lake(str(tmp_path / "lake")), [f"erasure-{number}" for number in range(MANY)]
    people = [f"{fingerprint(one)[:-2]}ab" for one in people]
    for one in people:
        persons = spark.createDataFrame([(one,)], f"{PERSON} string")
        with keys_of_persons(lake, "person", persons, NOBODY, create=True):
            pass
    before = secrets(tmp_path / "lake")
    assert compact_keys(lake) == MANY and compact_keys(lake) == 0
    assert secrets(tmp_path / "lake") == before and set(before) == set(people)
    assert forget_persons(lake, "person", people[:1]) == 1  # the file is written again, with the others
    [used] = DeltaTable(tmp_path / "lake/_person_keys").file_uris()
    assert used in files_with_keys(lake, people[1:])
    assert len(files_with_keys(lake, people[1:])) == MANY + 1 and used not in files_with_keys(lake, people[:1])

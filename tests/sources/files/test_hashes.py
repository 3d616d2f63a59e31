"""Content hashes of local files."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

import pytest

from incload_assets.sources.files import hashes as file_hashes
from incload_assets.sources.files.hashes import FileHashes
from tests.support.files import write

LONG_AGO = (1_700_000_000, 1_700_000_000)


def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this test count as unchanged for long."""
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", -(10**18))


def remembered(store: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(store)
    rows = connection.execute("SELECT name, value FROM remembered ORDER BY name").fetchall()
    connection.close()
    return rows


def test_a_hash_depends_on_content_only(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a", "x"), write(tmp_path / "b", "x")
    found = FileHashes(tmp_path / "store").of([str(one), str(other), str(tmp_path / "none")])
    expected = blake2b(b"x", digest_size=16).hexdigest()
    assert found == {str(one): expected, str(other): expected}


def test_same_size_and_modification_time_but_other_content_is_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    hashes, path = FileHashes(tmp_path / "store"), write(tmp_path / "a", "x")
    os.utime(path, LONG_AGO)
    before = hashes.of([str(path)])
    path.write_text("y")
    os.utime(path, LONG_AGO)
    assert hashes.of([str(path)]) != before


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch)
    hashes, path = FileHashes(tmp_path / "store"), write(tmp_path / "a", "x")
    hashes.of([str(path)])
    connection = sqlite3.connect(tmp_path / "store")
    connection.execute("UPDATE remembered SET value = 'from the store'")
    connection.commit()
    connection.close()
    assert hashes.of([str(path)]) == {str(path): "from the store"}


def test_a_file_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "x")
    FileHashes(tmp_path / "store").of([str(path)])
    assert not (tmp_path / "store").exists() or remembered(tmp_path / "store") == []


def test_a_broken_store_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch)
    path, store = write(tmp_path / "a", "x"), write(tmp_path / "store", b"no database" * 1000)
    hash_of_x = blake2b(b"x", digest_size=16).hexdigest()
    assert FileHashes(store).of([str(path)]) == {str(path): hash_of_x}
    FileHashes(store).of([str(path)])
    assert remembered(store) == [(str(path), hash_of_x)]


def test_a_store_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "x")
    assert FileHashes(path / "store").of([str(path)]) == {str(path): blake2b(b"x", digest_size=16).hexdigest()}


def test_many_at_once_share_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch)
    paths = [str(write(tmp_path / f"{number}", str(number))) for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: FileHashes(tmp_path / "store").of(paths), range(8)))
    assert all(hashes == found[0] for hashes in found)
    assert remembered(tmp_path / "store") == sorted(found[0].items())

"""A file that several write at once is always one of theirs, whole."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from incload_assets.platform.whole_files import replace_file


def test_threads_that_write_the_same_file_leave_one_content_whole_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    contents = [letter * 100_000 for letter in (b"a", b"b", b"c", b"d")]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            list(threads.map(lambda content: replace_file(target, content, 0o600), contents))
            assert target.read_bytes() in contents
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(folder, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]

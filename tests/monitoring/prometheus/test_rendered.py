"""Files for other programs: written at once, only if they change, and never over somebody else's."""

from pathlib import Path

import pytest
import yaml

from incload_assets.monitoring.prometheus.rendered import HEADER, as_yaml, write
from incload_assets.platform.errors import IncrementalLoadError


def test_a_file_is_written_once_and_again_when_it_changes(tmp_path: Path) -> None:
    first = {"a.yaml": as_yaml({"one": 1}), "deep/b.yaml": as_yaml({"two": [2]})}
    assert write(tmp_path / "new", first) == ["a.yaml", "deep/b.yaml"]
    before = (tmp_path / "new" / "a.yaml").stat()
    assert write(tmp_path / "new", first) == []
    assert write(tmp_path / "new", {**first, "deep/b.yaml": as_yaml({"two": [3]})}) == ["deep/b.yaml"]
    after = (tmp_path / "new" / "a.yaml").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert yaml.safe_load((tmp_path / "new" / "deep" / "b.yaml").read_text()) == {"two": [3]}
    assert [path.name for path in (tmp_path / "new").rglob(".*")] == []


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    (tmp_path / "own.yaml").write_text("mine: true\n")
    with pytest.raises(IncrementalLoadError, match=r"rules.yaml was not written by incload"):
        write(tmp_path, {"prometheus.yaml": as_yaml({}), "rules.yaml": as_yaml({})})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "rules.yaml": "groups: []\n",
        "own.yaml": "mine: true\n",
    }


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.yaml": as_yaml({"one": 1})})
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path, {"a.yaml": as_yaml({"one": 2})})
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    assert (tmp_path / "a.yaml").read_text() == HEADER + "one: 1\n"

"""A watch over folders notices what a listing would, at the price of a look at their times."""

import os
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.declaration.window import known_windows
from incload_assets.sources.files.folder_watch import FolderWatch
from incload_assets.sources.files.template import Template

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-11")


@pytest.fixture
def watch(tmp_path: Path) -> Callable[[], FolderWatch]:
    """Makes a watch over ten days; files of the first nine are there, and everything is a minute old."""
    for number in range(1, 10):
        folder = tmp_path / f"2026-01-{number:02d}" / "shop"
        folder.mkdir(parents=True)
        (folder / "part.json").write_text("{}")
    template = Template.parse("items", f"{tmp_path}/{{window:%Y-%m-%d}}/*/*.json", str(tmp_path))

    def make(old: bool = True) -> FolderWatch:
        for path in [tmp_path, *tmp_path.rglob("*")] if old else []:
            at = path.stat().st_mtime - 60
            os.utime(path, (at, at))
        return FolderWatch.of("items", template, known_windows(DAYS, DAYS.get_partition_keys()))

    return make


def test_nothing_has_changed_until_a_file_or_a_folder_is_new_or_gone(
    tmp_path: Path, watch: Callable[[], FolderWatch]
) -> None:
    one = watch()
    assert not one.changed(closely=False) and not one.changed(closely=True)
    (tmp_path / "2026-01-01" / "shop" / "late.json").write_text("{}")
    assert one.changed(closely=False)
    two = watch()
    (tmp_path / "2026-01-02" / "other").mkdir()
    assert two.changed(closely=False)
    three = watch()
    (tmp_path / "2026-01-03" / "shop" / "part.json").unlink()
    assert three.changed(closely=False)
    four = watch()
    (tmp_path / "2026-01-10").mkdir()
    assert four.changed(closely=False), "the folder of a window that had none"


def test_a_file_written_again_in_its_place_is_noticed_at_once_in_the_newest_windows_and_closely_in_others(
    tmp_path: Path, watch: Callable[[], FolderWatch]
) -> None:
    one = watch()
    (tmp_path / "2026-01-01" / "shop" / "part.json").write_text("{} {}")
    assert not one.changed(closely=False) and one.changed(closely=True)
    two = watch()
    (tmp_path / "2026-01-09" / "shop" / "part.json").write_text("{} {}")
    assert two.changed(closely=False)


def test_a_folder_that_changed_just_before_vouches_for_nothing(watch: Callable[..., FolderWatch]) -> None:
    """Another file may have come within the same tick of the file system's clock."""
    assert watch(old=False).changed(closely=False)

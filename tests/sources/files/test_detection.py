"""Which files a window holds, in local folders."""

import os
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError, SourceUnavailable
from incload_assets.sources.files.files import Files
from tests.support.detection import detected
from tests.support.files import FIRST, day, days, keys, write

DAILY = Files("{landing}/orders/{window:%Y-%m-%d}/*.json")
FLAT = Files("{landing}/orders/*.json")


def modified(path: Path, moment: datetime) -> Path:
    os.utime(path, (moment.timestamp(),) * 2)
    return path


def test_each_window_has_the_files_that_its_path_names(landing: Path) -> None:
    write(landing / "orders/2026-01-01/b.json", "{}")
    write(landing / "orders/2026-01-01/a.json", "{}\n{}")
    write(landing / "orders/2026-01-03/a.json", "")
    write(landing / "orders/2026-01-09/a.json", "{}")
    found = detected(DAILY, "orders", days(4), {})
    assert {key: (keys(position), position.summary) for key, position in found.items()} == {
        "2026-01-01": (["orders/2026-01-01/a.json", "orders/2026-01-01/b.json"], "2 files, 7 B"),
        "2026-01-03": (["orders/2026-01-03/a.json"], "1 file, 0 B"),
    }


def test_one_look_at_many_windows_sees_the_same_as_many_looks(landing: Path) -> None:
    chosen = random.Random(1).sample(range(1, 301), 120)
    for number in chosen:
        write(landing / f"orders/{day(number).key}/{number}.json", f"{number}")
    together = detected(DAILY, "orders", days(300), {})
    assert sorted(together) == sorted(day(number).key for number in chosen)
    assert together == {
        key: position for window in days(300) for key, position in detected(DAILY, "orders", [window], {}).items()
    }


def test_times_in_file_names_and_folders(landing: Path) -> None:
    write(landing / "2026/x/orders-0102.csv.gz", "")
    write(landing / "2026/x/y/orders-0103.csv.gz", "")
    found = detected(Files("{landing}/{window:%Y}/**/orders-{window:%m%d}.csv.gz"), "orders", days(5), {})
    assert {key: keys(position) for key, position in found.items()} == {
        "2026-01-02": ["2026/x/orders-0102.csv.gz"],
        "2026-01-03": ["2026/x/y/orders-0103.csv.gz"],
    }


def test_hidden_unfinished_and_special_files_do_not_count(landing: Path) -> None:
    folder = landing / "in"
    names = [".a", "_SUCCESS", "a.tmp", "a.json.part", "A.TMP", "a.crdownload", "a.inprogress", "a._COPYING_", "a~"]
    for name in [*names, "sub/_temporary/a", ".git/a", "whole", "sub/whole"]:
        write(folder / name, "x")
    (folder / "to-nothing").symlink_to(folder / "none")
    (folder / "sub/up").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    found = detected(
        Files("{landing}/in/**", format="json"), "orders", [day(1)], {}, first=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert found == {}
    wide = Window(FIRST, FIRST + timedelta(days=36500), "all")
    assert keys(detected(Files("{landing}/in/**", format="json"), "orders", [wide], {})["all"]) == [
        "in/sub/whole",
        "in/whole",
    ]


def test_the_same_size_and_time_but_other_content_is_another_position(landing: Path) -> None:
    path = modified(write(landing / "orders/2026-01-01/a.json", '{"a":1}'), FIRST)
    before = detected(DAILY, "orders", [day(1)], {})
    modified(write(path, '{"a":2}'), FIRST)
    assert detected(DAILY, "orders", [day(1)], {})["2026-01-01"].fingerprint != before["2026-01-01"].fingerprint


def test_the_same_content_written_again_is_the_same_position(landing: Path) -> None:
    write(landing / "orders/2026-01-01/a.json", "{}")
    before = detected(DAILY, "orders", [day(1)], {})
    write(landing / "orders/2026-01-01/a.json", "{}")
    assert detected(DAILY, "orders", [day(1)], {}) == before


def test_a_moved_landing_area_holds_the_same_positions(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(landing / "orders/2026-01-01/a.json", "{}")
    before = detected(DAILY, "orders", [day(1)], {})
    landing.rename(landing.parent / "elsewhere")
    monkeypatch.setenv("INCLOAD_LANDING", str(landing.parent / "elsewhere"))
    assert detected(DAILY, "orders", [day(1)], {}) == before


def test_a_deleted_file_is_reported_and_its_rows_are_kept(landing: Path) -> None:
    gone = write(landing / "orders/2026-01-01/a.json", "{}")
    write(landing / "orders/2026-01-01/b.json", "{}")
    landed = detected(DAILY, "orders", [day(1)], {})
    gone.unlink()
    after = detected(DAILY, "orders", [day(1)], landed)["2026-01-01"]
    assert after.fingerprint == landed["2026-01-01"].fingerprint
    assert (keys(after), DAILY.carried(after)) == (["orders/2026-01-01/b.json"], ["orders/2026-01-01/a.json"])
    assert after.summary == "1 file, 2 B, 1 more no longer at the source"
    assert DAILY.missing("orders", days(2), landed) == {"2026-01-01": ["orders/2026-01-01/a.json"]}
    assert DAILY.missing("orders", days(2), {"2026-01-01": after}) == {"2026-01-01": ["orders/2026-01-01/a.json"]}


def test_a_window_whose_files_are_all_deleted_keeps_its_position(landing: Path) -> None:
    gone = write(landing / "orders/2026-01-01/a.json", "{}")
    landed = detected(DAILY, "orders", [day(1)], {})
    gone.unlink()
    after = detected(DAILY, "orders", [day(1)], landed)["2026-01-01"]
    assert (after.fingerprint, keys(after)) == (landed["2026-01-01"].fingerprint, [])


def test_a_file_that_comes_back_is_a_file_again(landing: Path) -> None:
    path = write(landing / "orders/2026-01-01/a.json", "{}")
    first = detected(DAILY, "orders", [day(1)], {})
    path.unlink()
    without = detected(DAILY, "orders", [day(1)], first)
    write(path, "{}")
    assert detected(DAILY, "orders", [day(1)], without) == first
    write(path, "{ }")
    again = detected(DAILY, "orders", [day(1)], without)["2026-01-01"]
    assert (keys(again), keys(again, "gone")) == (["orders/2026-01-01/a.json"], [])
    assert again.fingerprint != first["2026-01-01"].fingerprint


def test_with_retract_a_deleted_file_leaves_the_position(landing: Path) -> None:
    source = Files(DAILY.path, deleted="retract")
    gone = write(landing / "orders/2026-01-01/a.json", "{}")
    write(landing / "orders/2026-01-01/b.json", "{}")
    landed = detected(source, "orders", [day(1)], {})
    gone.unlink()
    after = detected(source, "orders", [day(1)], landed)["2026-01-01"]
    assert (keys(after), source.carried(after)) == (["orders/2026-01-01/b.json"], [])
    assert after.fingerprint != landed["2026-01-01"].fingerprint
    assert source.missing("orders", [day(1)], landed) == {}


def test_a_landing_area_that_vanishes_is_a_fault_and_no_deletion(landing: Path) -> None:
    source = Files(DAILY.path, deleted="retract")
    write(landing / "orders/2026-01-01/a.json", "{}")
    landed = detected(source, "orders", [day(1)], {})
    landing.rename(landing.parent / "unmounted")
    with pytest.raises(SourceUnavailable, match="landing is gone, and files from it were loaded before"):
        detected(source, "orders", [day(1)], landed)


def test_a_folder_of_one_window_that_vanishes_is_a_deletion(landing: Path) -> None:
    source = Files(f"{landing}/{{window:%Y-%m-%d}}/*.json")
    path = write(landing / "2026-01-01/a.json", "{}")
    landed = detected(source, "orders", [day(1)], {})
    path.unlink()
    path.parent.rmdir()
    assert source.missing("orders", [day(1)], landed) == {"2026-01-01": [str(path)]}


def test_a_landing_area_that_was_never_there_holds_nothing(landing: Path) -> None:
    landing.rmdir()
    assert detected(DAILY, "orders", days(2), {}) == {}


def test_two_windows_that_read_the_same_are_refused(landing: Path) -> None:
    hours = [Window(FIRST + timedelta(hours=n), FIRST + timedelta(hours=n + 1), f"2026-01-01-0{n}") for n in (0, 1)]
    with pytest.raises(DeclarationError, match="reads the same for the windows 2026-01-01-00 and 2026-01-01-01"):
        detected(DAILY, "orders", hours, {})


def test_a_flat_file_belongs_to_the_window_in_which_it_was_modified(landing: Path) -> None:
    modified(write(landing / "orders/a.json", "{}"), FIRST + timedelta(hours=30))
    modified(write(landing / "orders/b.json", "{}"), FIRST + timedelta(days=1))
    modified(write(landing / "orders/c.json", "{}"), FIRST + timedelta(days=1, microseconds=-1))
    modified(write(landing / "orders/later.json", "{}"), FIRST + timedelta(days=3))
    found = detected(FLAT, "orders", days(3), {})
    assert {key: keys(position) for key, position in found.items()} == {
        "2026-01-01": ["orders/c.json"],
        "2026-01-02": ["orders/a.json", "orders/b.json"],
    }


def test_a_flat_file_older_than_the_table_belongs_to_its_first_window(landing: Path) -> None:
    modified(write(landing / "orders/a.json", "{}"), FIRST - timedelta(days=400))
    assert list(detected(FLAT, "orders", days(3), {}, first=FIRST)) == ["2026-01-01"]
    assert detected(FLAT, "orders", [day(2), day(3)], {}, first=FIRST) == {}
    assert detected(FLAT, "orders", days(3), {}) == {}


def test_a_landed_flat_file_stays_in_its_window_when_rewritten(landing: Path) -> None:
    path = modified(write(landing / "orders/a.json", "{}"), FIRST)
    landed = detected(FLAT, "orders", days(3), {})
    modified(write(path, "{ }"), FIRST + timedelta(days=2))
    after = detected(FLAT, "orders", days(3), landed)
    assert {key: keys(position) for key, position in after.items()} == {"2026-01-01": ["orders/a.json"]}
    assert after["2026-01-01"].fingerprint != landed["2026-01-01"].fingerprint
    assert detected(FLAT, "orders", [day(3)], landed) == {}


def test_a_flat_file_claimed_twice_stays_with_the_earliest(landing: Path) -> None:
    modified(write(landing / "orders/a.json", "{}"), FIRST)
    position = detected(FLAT, "orders", days(3), {})["2026-01-01"]
    claims = {"2026-01-03": position, "2026-01-02": position}
    assert keys(detected(FLAT, "orders", days(3), claims)["2026-01-02"]) == ["orders/a.json"]
    assert keys(detected(FLAT, "orders", days(3), claims)["2026-01-03"]) == []


def test_flat_windows_asked_one_by_one_or_together_agree(landing: Path) -> None:
    dice = random.Random(7)
    for number in range(60):
        path = write(landing / f"orders/{number}.json", str(number))
        modified(path, FIRST + timedelta(hours=dice.uniform(-48, 240)))
    landed = detected(FLAT, "orders", [day(3), day(6)], {}, first=FIRST)
    for number in range(0, 60, 3):
        modified(landing / f"orders/{number}.json", FIRST + timedelta(hours=dice.uniform(-48, 240)))
    together = detected(FLAT, "orders", days(8), landed, first=FIRST)
    assert together == {
        key: position
        for window in days(8)
        for key, position in detected(FLAT, "orders", [window], landed, first=FIRST).items()
    }
    everything = [key for position in together.values() for key in keys(position)]
    assert len(everything) == len(set(everything))


def test_ten_thousand_files_are_listed_completely_and_soon(landing: Path) -> None:
    folder = landing / "orders/2026-01-01"
    folder.mkdir(parents=True)
    for number in range(10_000):
        (folder / f"{number:05}.json").write_bytes(b"{}")
    began = time.monotonic()
    position = detected(DAILY, "orders", days(300), {})["2026-01-01"]
    assert keys(position) == [f"orders/2026-01-01/{number:05}.json" for number in range(10_000)]
    assert time.monotonic() - began < 10

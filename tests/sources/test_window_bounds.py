"""WindowBounds are written once, in order, whoever is faster."""

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from incload_assets.platform.lake import Lake
from incload_assets.sources import window_bounds as module
from incload_assets.sources.window_bounds import Bound, WindowBounds


def noon(number: int) -> datetime:
    return datetime(2026, 1, number, 12, tzinfo=UTC)


def ids(*numbers: int) -> dict[datetime, Bound]:
    return {noon(number): {"id": number * 10} for number in numbers}


def by_day(missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
    return {at: {"id": at.day * 10} for at in missing}


def test_a_cut_is_chosen_once_and_never_again(tmp_path: Path) -> None:
    cuts = WindowBounds(Lake(str(tmp_path)), "shop/payments")
    assert cuts.known() == {}
    assert cuts.at([noon(2), noon(1)], by_day) == ids(1, 2)
    seen: list[tuple[list[datetime], Mapping[datetime, Bound]]] = []

    def choose(missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        seen.append((list(missing), known))
        return {noon(3): {"id": 99}}

    assert cuts.at([noon(2), noon(4), noon(3)], choose) == ids(2) | {noon(3): {"id": 99}}, "none was chosen for the 4th"
    assert seen == [([noon(3), noon(4)], ids(1, 2))]
    assert WindowBounds(Lake(str(tmp_path)), "shop/payments").known() == ids(1, 2) | {noon(3): {"id": 99}}
    assert WindowBounds(Lake(str(tmp_path)), "shop/other").known() == {}


def test_who_is_overtaken_between_reading_and_writing_looks_again(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    looked: list[Mapping[datetime, Bound]] = []

    def choose(missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        looked.append(known)
        if len(looked) < 3:
            WindowBounds(lake, "t").at([noon(len(looked))], lambda missing, _: {missing[0]: {"id": len(looked)}})
        return {at: {"id": 7} for at in missing}

    found = WindowBounds(lake, "t").at([noon(1), noon(5)], choose)
    assert [list(known) for known in looked] == [[], [noon(1)], [noon(1), noon(2)]]
    assert found == {noon(1): {"id": 1}, noon(5): {"id": 7}}, "what the other wrote stays"


def test_the_cuts_of_many_windows_are_in_few_files_and_who_is_overtaken_then_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILES", 4)
    lake = Lake(str(tmp_path))

    def overtaken(missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        if noon(28) not in known:
            WindowBounds(lake, "t").at([noon(28)], by_day)
        return by_day(missing, known)

    for number in range(1, 28):
        WindowBounds(lake, "t").at([noon(number)], overtaken if number == 11 else by_day)
    table = lake.delta(lake.cuts_uri(["t"]))
    assert table is not None and len(table.file_uris()) <= 4
    assert WindowBounds(lake, "t").known() == ids(*range(1, 29))


def write_all(folder: str, offset: int) -> dict[datetime, Bound]:
    return WindowBounds(Lake(folder), "t").at(
        [noon(number) for number in range(1, 11)], lambda missing, _: {missing[0]: {"by": offset}}
    ) and WindowBounds(Lake(folder), "t").at(
        [noon(number) for number in range(1, 11)], lambda missing, _: {at: {"by": offset} for at in missing}
    )


def test_four_processes_at_once_agree_on_every_cut(tmp_path: Path) -> None:
    # not a multiprocessing.Pool: its end waits for workers that it terminates, now and then for ever
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(write_all, [str(tmp_path)] * 4, range(4)))
    assert len(found[0]) == 10
    assert all(one == found[0] for one in found)

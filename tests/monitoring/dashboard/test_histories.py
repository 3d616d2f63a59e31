"""Counters at past instants, from one reading of ``_loads``: as if they had been gathered then."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from incload_assets.declaration.window import window_of
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.sums import sums_at
from incload_assets.monitoring.dashboard.evaluate import Read, Reading
from incload_assets.monitoring.dashboard.view import COUNTERS, counters_at
from incload_assets.monitoring.facts import Facts, gather
from incload_assets.monitoring.metrics import METRICS, samples
from tests.support.made_up_loads import MadeUp, counted, made_up, reading, row, timed
from tests.support.made_up_tables import declared

NOW = datetime(2026, 1, 12, 9, 30, tzinfo=UTC)


NAMES = {metric.name for metric in COUNTERS}


def flat(found: Reading) -> dict[tuple[str, str], float]:
    return {(name, str(sorted(s.labels.items()))): s.value for name, all_ in found.items() for s in all_}


def loads_at_random(world: MadeUp, fate: random.Random) -> None:
    """Loads that fail, repeat, come too late and overtake each other."""
    rows = []
    for table in world.tables.values():
        keys = table.partitions_def.get_partition_keys(current_time=NOW)
        for _ in range(60):
            window = window_of(table.partitions_def, fate.choice(keys), table.name)
            end = min(window.start + timedelta(hours=fate.uniform(1, 60)), NOW + timedelta(hours=5))
            one = counted(
                timed(row(table, window, end, fate.getrandbits(60)), fate.uniform(1, 9)), fate.randrange(999), fate
            )
            if fate.random() < 0.2:
                kind = fate.choice(["ContractViolation", "SourceUnavailable"])
                one = row(table, window, end, fate.getrandbits(60), outcome="failed", error_class=kind)
            rows.append(one)
    world.append(*rows)


def read_at(world: MadeUp, instants: Sequence[datetime]) -> Mapping[datetime, Reading]:
    """The counters at instants."""
    sums = sums_at(LoadsTable(world.lake), [*world.tables], sorted(instants))
    return counters_at([*world.tables.values()], dict(zip(sorted(instants), sums, strict=True)))


@pytest.mark.parametrize("seed", range(3))
def test_counters_are_what_would_have_been_gathered(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_PRICE_PER_HOUR", "1.5")
    cost = ("incload_cost_total", "[('table', 'guests')]")
    instants = [NOW - timedelta(days=14), NOW, *(NOW - n * timedelta(hours=17) for n in range(1, 8))]
    with made_up(tmp_path, declared("guests", "rooms"), NOW) as world:
        loads_at_random(world, random.Random(seed))
        tables = [*world.tables.values()]
        found = read_at(world, instants)
        assert sorted(found) == sorted(instants)
        for at in instants:
            then = reading(samples(gather(world.instance, tables, world.lake, at), COUNTERS))
            assert flat(found[at]) == pytest.approx(flat(then))
    names = Counter(name for name, _ in flat(found[NOW]))
    assert set(names) == NAMES
    assert flat(found[NOW])[cost] > 0


def test_without_a_history_nothing_has_been_counted(tmp_path: Path) -> None:
    with made_up(tmp_path, declared("guests"), NOW) as world:
        found = read_at(world, [NOW])
    assert {sample.value for all_ in found[NOW].values() for sample in all_} == {0.0}


def test_a_metric_is_computed_when_it_is_asked_for(tmp_path: Path) -> None:
    with made_up(tmp_path, declared("guests"), NOW) as world:
        asked = list[str]()

        def facts() -> Facts:
            asked.append("facts")
            return gather(world.instance, [*world.tables.values()], world.lake, NOW)

        found = Read(facts, METRICS)
        assert (len(found), asked) == (len(METRICS), [])
        assert {sample.metric for sample in found["incload_rows_total"]} == {"incload_rows_total"}
        assert found.get("incload_nothing") is None and "incload_late" in found
        assert dict(found) == reading(samples(facts())) | {name: [] for name in found if not found[name]}
    assert asked == ["facts", "facts"], "the facts are gathered once for all metrics"

"""The models of the protocol, compared with the real code step by step.

Random walks of a model are followed by real loads of a real table; after each step, what can be seen of both has to be
the same: the log of every window with its landing number and markers, the row of the key, the fences, the checkpoints,
where each run stands, and the number of what it is about to send. The walks are chosen so that together they take many
kinds of steps (at night, all that are known), and would be seen to go otherwise without any
one part of the protocol.

By day two kinds of loads are walked, chosen by the seed of the test run; at night all.

Not compared is what Dagster does: which checkpoints it trusts, and which windows it takes for untried, is the model's.
And what begins on the server also ends, before anything else happens.
"""

import math
from functools import cache
from pathlib import Path

import pytest

from incload_assets.platform.settings import Settings
from tests.model.compaction import COMPACTION_CASES, COMPACTION_SWITCHES, CompactionModel
from tests.model.gates import put_up_gates
from tests.model.protocol import CASES, PROOFS, SWITCHES, Model
from tests.model.ranges import RANGE_CASES, RANGE_SWITCHES, RangeModel
from tests.model.real import Real, RealCompaction, RealSnapshots, view_of
from tests.model.snapshots import NEEDLESS, SNAPSHOT_CASES, SNAPSHOT_SWITCHES, SnapshotModel
from tests.model.walks import Walk, along, chosen, moves
from tests.support.sampling import NIGHT
from tests.writes.case import EXAMPLES, SEED

UNMARKED = frozenset({"markers", "carried markers"})
"""What snapshots do without."""
MODELS: dict[str, dict[str, Model]] = {
    "single loads": {name: Model(case) for name, case in CASES.items() if not case.edits},
    "range loads": {name: RangeModel(case) for name, case in RANGE_CASES.items()},
    "snapshots": {name: SnapshotModel(case, UNMARKED) for name, case in SNAPSHOT_CASES.items()},
    "compaction": {name: CompactionModel(case) for name, case in COMPACTION_CASES.items()},
}
REAL: dict[type[Model], type[Real]] = {SnapshotModel: RealSnapshots, CompactionModel: RealCompaction}
ACTIONS_A_DAY = {"single loads": 88, "range loads": 88, "snapshots": 45, "compaction": 16}
SEEDS = {"single loads": 0, "range loads": 2, "snapshots": 0, "compaction": 0}
"""Of the walks of every day, which show every part of the protocol."""
TODAY = list(MODELS) if NIGHT else [["single loads", "compaction"], ["range loads", "snapshots"]][SEED % 2]
PARTS = {
    "single loads": SWITCHES.keys() - {"distrust"} - PROOFS,  # what is left out is Dagster's part, and edits by hand
    "range loads": RANGE_SWITCHES.keys() - {"first"},
    "snapshots": (SWITCHES | SNAPSHOT_SWITCHES).keys() - {"distrust"} - PROOFS - NEEDLESS,
    "compaction": COMPACTION_SWITCHES.keys() - {"clean"},
}


TWO_PLANS_OF_ONE_SNAPSHOT = "run 0 *5, run 1 *5, run 1, run 0 *3"
WRITTEN: dict[str, dict[str, str]] = {
    "single loads": {
        "tie of two contents": TWO_PLANS_OF_ONE_SNAPSHOT,
        "gone, then rewritten again": "run 0 *8, source A, run 0 *2, kill 0, source A, run 0 *2",
    },
    "snapshots": {"two snapshots": TWO_PLANS_OF_ONE_SNAPSHOT},
    "compaction": {
        "rewrite chosen": "run 0 *8, run 1 *8, run 2 *4, source B, run 1 *2, run 2",
        "rewritten while it is about to be landed again": "run 0 *8, run 1 *2, run 0, kill 0, run 0, source A, "
        "run 0 *2",
        "newer delete withdrawn later": "run 0 *8, run 1 *2, run 2 *5",
        "late older change": "run 0 *8, run 2 *5",
    },
}
"""Walks that chance hardly finds, by case; ``run 0 *2`` is two actions."""


@cache
def walks(kind: str, seed: int) -> list[Walk]:
    """A few walks that together show much; at night, everything."""
    written = [
        along(MODELS[kind][case], PARTS[kind], _actions(walk), view_of) for case, walk in WRITTEN.get(kind, {}).items()
    ]
    most = math.inf if NIGHT else ACTIONS_A_DAY[kind]
    return written + chosen(list(MODELS[kind].values()), PARTS[kind], seed, view_of, most)


def _actions(walk: str) -> list[str]:
    """``run 0 *2, kill 0`` as a list of three."""
    parts = [part.partition(" *") for part in walk.split(", ")]
    return [action for action, _, times in parts for _ in range(int(times or 1))]


def follow(model: Model, actions: list[str], settings: Settings, folder: Path) -> None:
    """The real code does what the model does, and looks the same after each step.

    Raises:
        AssertionError: It does not.
    """
    real, state = REAL.get(type(model), Real)(settings, folder, model), model.start()
    try:
        for n, action in enumerate(actions, 1):
            kind, state = moves(model, state)[action]
            real.act(action, state)
            assert real.view() == view_of(state), f"after {kind!r}, the last of {actions[:n]} in {model.case}"
    finally:
        real.end()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "seed"), [(kind, SEEDS[kind] + n) for kind in TODAY for n in range(EXAMPLES)])
def test_the_real_code_takes_the_steps_of_the_model(
    kind: str, seed: int, spark_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_up_gates(monkeypatch)
    for n, walk in enumerate(walks(kind, seed)):
        follow(walk.model, walk.actions, spark_settings, tmp_path / str(n))


@pytest.mark.parametrize("kind", TODAY)
def test_the_walks_show_every_part_of_the_protocol(kind: str) -> None:
    shown = set[str]().union(*(shown for walk in walks(kind, SEEDS[kind]) for shown in walk.shown))
    assert {f"without {part}" for part in PARTS[kind]} <= shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "case", "actions"),
    [
        ("landing fence", "fix of a replay killed", "run 1, source B, kill 1, run 1, run 1, zombie 0"),
        ("bare landing fence", "update withdrawn", "run 1, kill 1, zombie 0, run 1"),
    ],
)
def test_a_model_that_lacks_a_part_is_seen_to_differ_from_the_real_code(
    part: str, case: str, actions: str, spark_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_up_gates(monkeypatch)
    *before, last = actions.split(", ")
    lacking = Model(CASES[case], frozenset({part}))
    with pytest.raises(AssertionError, match=f"the last of .*, {last!r}\\]"):
        follow(lacking, [*before, last], spark_settings, tmp_path)

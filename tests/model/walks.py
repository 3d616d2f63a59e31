"""Random walks through the models: what can be done in a state, and a few walks that show much."""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from itertools import count
from typing import NamedTuple

from tests.model.protocol import Model
from tests.model.terms import State

STROLLS = 40
"""Random walks per case, of which a few are chosen."""
LONGEST = 40
PREPARATION = 5
"""What it takes to begin another walk, in actions."""
PLAN = re.compile(r"Plan\(action='(\w*)'.*full=(\w+)\)")

View = Callable[[State], Hashable]


class Move(NamedTuple):
    """What one action does: its kind, and the state after it."""

    kind: str
    after: State


class Walk(NamedTuple):
    """Actions, and what each of them shows: its kind, and which parts of the protocol it would go otherwise without."""

    model: Model
    actions: list[str]
    shown: list[set[str]]


def moves(model: Model, state: State) -> dict[str, Move]:
    """What can be done next, by action: ``run 0``, ``kill 0``, ``zombie 0``, ``source A``.

    What begins on the server also ends, before anything else happens.
    """
    found: dict[str, Move] = {}
    zombies = count()
    for label, after in model.steps(state):
        if after is None:
            continue
        who, _, what = label.partition(": ")
        actor, which = who.split()[:2]
        if actor == "source":
            what = "source"
        elif actor == "zombie":
            which, what = str(next(zombies)), f"zombie {which}: {what}"
        else:
            run = state.runs[int(which)]
            actor = "kill" if what == "killed" else actor
            what = what if what == "killed" and run.work is None else f"{run.at}: {what}"
        action = f"{actor} {which}"
        goes_on = what.endswith("begins")
        found[action] = moves(model, after)[action] if goes_on else Move(_kind(what), after)
    return found


def walked(model: Model, actions: list[str]) -> State:
    """The state after some actions."""
    state = model.start()
    for action in actions:
        state = moves(model, state)[action].after
    return state


def stroll(model: Model, parts: Set[str], dice: random.Random, view: View) -> Walk:
    """A random walk in which some actors are quick and others slow.

    Args:
        model: Where.
        parts: Of the protocol, to look what would be seen without each of them.
        dice: Chance.
        view: What can be seen.
    """
    pace = defaultdict[str, float](lambda: dice.random() ** 4)

    def next_of(choice: Mapping[str, Move]) -> str:
        return dice.choices(list(choice), [pace[action] for action in choice])[0]

    return _walk(model, parts, view, next_of, LONGEST)


def along(model: Model, parts: Set[str], actions: Sequence[str], view: View) -> Walk:
    """The walk that some actions make; as :func:`stroll` otherwise."""
    left = iter(actions)
    return _walk(model, parts, view, lambda _: next(left), len(actions))


def _walk(model: Model, parts: Set[str], view: View, next_of: Callable[[Mapping[str, Move]], str], most: int) -> Walk:
    state, walk = model.start(), Walk(model, [], [])
    others = {part: (other := type(model)(model.case, model.without | {part}), other.start()) for part in sorted(parts)}
    while len(walk.actions) < most and (choice := moves(model, state)):
        action = next_of(choice)
        kind, state = choice[action]
        walk.actions.append(action)
        walk.shown.append({kind, *(["at rest"] if model.rests(state) else [])})
        for part, (other, before) in list(others.items()):
            same = moves(other, before).get(action)
            if same is not None and view(same.after) == view(state):
                others[part] = (other, same.after)
            else:
                walk.shown[-1].add(f"without {part}")
                del others[part]
    return walk


def chosen(models: Sequence[Model], parts: Set[str], seed: int, view: View, most: float) -> list[Walk]:
    """A few walks that together show all that very many do, each only as far as it is needed.

    Args:
        models: Where.
        parts: As in :func:`stroll`.
        seed: Of chance.
        view: What can be seen.
        most: Actions; those walks that show most come first.
    """
    dice, few = random.Random(seed), list[Walk]()
    many = [stroll(model, parts, dice, view) for _ in range(STROLLS) for model in models]
    left = set[str]().union(*(shown for walk in many for shown in walk.shown))
    while left and most > 0:
        best, worth = many[0], 0.0
        for walk in many:
            fresh: set[str] = set()
            for n, shown in enumerate(walk.shown, 1):
                if news := shown & left - fresh:
                    fresh |= news
                    if (value := len(fresh) / (n + PREPARATION)) > worth:
                        worth, best = value, Walk(walk.model, walk.actions[:n], walk.shown[:n])
        left -= set().union(*best.shown)
        most -= len(best.actions)
        few.append(best)
    return few


def _kind(what: str) -> str:
    """What happens, without the names of windows and the rows of plans."""
    return re.sub(r" [A-Z]$", "", PLAN.sub(r"\1 full=\2", what))

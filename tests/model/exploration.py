"""Exhaustive exploration: every state that the steps of a model can reach."""

import gc
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

WRONG = "WRONG: "
State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True)
class Outcome:
    """What an exploration saw.

    Args:
        states: How many.
        steps: How many steps between them: each path along them is an interleaving.
        at_rest: In how many states everything is done and nothing under way.
        exposed: In how many a reader is told that all is well, but sees something wrong; see ``Machine.exposed``.
        wrong: A trace to each of the first few wrong states; its last line says what is wrong.
    """

    states: int
    steps: int
    at_rest: int
    exposed: int
    wrong: list[list[str]]


class Machine(ABC, Generic[State]):
    """Something that goes from state to state."""

    @abstractmethod
    def start(self) -> State:
        """The state before anything has happened."""

    @abstractmethod
    def steps(self, state: State) -> Iterator[tuple[str, State | None]]:
        """What can happen next, and the state after it; None for a step that is wrong in itself."""

    @abstractmethod
    def rests(self, state: State) -> bool:
        """Whether everything is done and nothing is under way."""

    @abstractmethod
    def problem(self, state: State) -> str | None:
        """What is wrong with a state at rest."""

    def exposed(self, state: State) -> bool:
        """Whether a state that is not yet at rest shows something wrong as done."""
        return False

    def canonical(self, state: State) -> State:
        """The one of several states that differ in nothing that matters."""
        return state

    def explore(self, *, stop_when_wrong: bool = False) -> Outcome:
        """Visit every reachable state, or those up to the first that is wrong."""
        gc.disable()  # states are never garbage while exploring, and looking for it takes a third of the time
        try:
            return self._explore(stop_when_wrong)
        finally:
            gc.enable()

    def _explore(self, stop_when_wrong: bool) -> Outcome:
        first = self.start()
        parents: dict[State, tuple[State, str] | None] = {first: None}
        stack, steps, at_rest, exposed = [first], 0, 0, 0
        wrong: list[list[str]] = []
        while stack and not (wrong and stop_when_wrong):
            state = stack.pop()
            problem = None
            if self.rests(state):
                at_rest += 1
                problem = self.problem(state)
            exposed += self.exposed(state)
            for label, after in self.steps(state):
                steps += 1
                if after is None:
                    problem = label
                elif (after := self.canonical(after)) not in parents:
                    parents[after] = (state, label)
                    stack.append(after)
            if problem and len(wrong) < 3:
                wrong.append([*_trace(parents, state), problem])
        return Outcome(len(parents), steps, at_rest, exposed, wrong)


def _trace(parents: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    lines: list[str] = []
    while (parent := parents[state]) is not None:
        state, label = parent
        lines.append(label)
    return lines[::-1]


def put(items: tuple[Any, ...], i: int, item: object) -> tuple[Any, ...]:
    """The tuple with another item at a place."""
    return (*items[:i], item, *items[i + 1 :])

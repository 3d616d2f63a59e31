"""Range loads: windows that nobody has tried before are landed and merged together; mixed with single loads.

The steps that a range load adds: it notes what the source holds, sends an *intent* (a commit of nothing but the
range's landing fence), *looks* which of its windows are still first, *lands* them in one transaction, *verifies* that
the source has not changed, plans from *table* and *log* for all of them, and *checkpoints* one after the other.
Whatever cannot be loaded together is loaded one by one. A single load that cannot trust its window's checkpoint, and is
not the first to try the window, moves both fences of the range, if there ever was an intent: that of its landings
before it lands, that of its merges after it has landed (commits of nothing but a fence). Such a commit is made again if
another number than its own is there then.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.exploration import put
from tests.model.protocol import SWITCHES, Model
from tests.model.terms import Case, Content, Landed, Merge, Run, State, Work, down, each_work, once, up

RANGE = "range"
RANGE_SWITCHES = {
    "range fence": "a MERGE of a range is skipped or conflicts if the range's fence in the table has moved",
    "range landing fence": "a landing of a range is skipped or conflicts if the range's fence in the log has moved",
    "intent": "a range load moves the range's landing fence before it lands, so that single loads know of it",
    "second look": "which windows nobody has tried is looked at after the intent, not before",
    "first": "only windows that nobody has tried are loaded together",
    "move of the landing fence": "a single load that cannot trust its checkpoint moves the range's fence in the log",
    "move of the table fence": "and, when it has landed, the range's fence in the table",
    "range numbers": "the numbers of the MERGEs of ranges say nothing of landings, so that a call-off exceeds them all",
    "fallback": "a range load whose landing is refused loads its windows one by one, instead of landing again",
    "range reconcile": "after the MERGE of a range, too, table and log are read again, and what differs is repaired",
}


class Move(NamedTuple):
    """A commit of nothing but the range's fence, in the log (``landing``) or the table (``merge``)."""

    table: str
    number: tuple[int, int]


class RangeLanding(NamedTuple):
    """A landing of several windows under way. ``stale``: its fence has moved since it began.

    That Delta also refuses it if one of the windows was landed since it began is not relied upon.
    """

    windows: tuple[str, ...]
    contents: tuple[Content, ...]
    number: int
    begun: bool = False
    stale: bool = False


class RangeModel(Model):
    """The protocol with range loads."""

    switches = SWITCHES | RANGE_SWITCHES

    def _settled(self, state: State, w: int) -> bool:
        """A range checkpoints a window some time after it looked; so the log has to hold it then, too."""
        landed = state.log[w]
        return super()._settled(state, w) and landed is not None and landed.fingerprint == self._now(state)[w]

    # the run

    def _begin(self, state: State, i: int, windows: tuple[str, ...]) -> State:
        state = state._replace(runs=put(state.runs, i, Run(state.runs[i].asked, "next", windows)))
        first = self._first(state, i)
        if first == windows and len(windows) == 1:
            return super()._begin_window(state, i)  # there is nothing to call off
        if len(first) < 2:
            return self._begin_window(state, i)
        pending = (*first, *(name for name in windows if name not in first))
        state = self._noting(self._to(state, i, together=first, pending=pending), i)
        if "intent" in self.without:
            return self._to(state, i, at="look", fence=(state.landings[-1], 0))
        return self._intends(state, i)

    def _noting(self, state: State, i: int) -> State:
        """What the source holds now."""
        now = tuple(self._now(state)[self.names.index(name)] for name in state.runs[i].together)
        return self._to(state, i, noted=now)

    def _intends(self, state: State, i: int) -> State:
        number = state.landings[-1] + 1
        return self._to(state, i, at="intent", work=Move("landing", (0, number)), fence=(number, 0))

    def _first(self, state: State, i: int) -> tuple[str, ...]:
        """The windows of a run that nobody is known to have tried."""
        run = state.runs[i]
        tried = {name for name in self.names if self._tried(state, i, name)}
        tried.update(name for w, name in enumerate(self.names) if state.log[w] is not None or state.landings[w])
        if "first" in self.without:
            tried = {name for w, name in enumerate(self.names) if state.checkpoints[w].content == self._now(state)[w]}
        return tuple(name for name in run.together or run.pending if name not in tried)

    def _tried(self, state: State, i: int, name: str) -> bool:
        """Whether Dagster knows of another run that may have tried a window."""
        known = state.checkpoints[self.names.index(name)]
        others = any(name in other.pending for j, other in enumerate(state.runs) if j != i)
        return others or known.content is not None or known.failed

    def _begin_window(self, state: State, i: int) -> State:
        """A single load, of a run for one window or of one that goes on one by one."""
        trusted = self._trusted(state, i)
        state = self._to(
            state, i, together=(), noted=(), trusted=trusted, landed=False, committed=False, doubtful=trusted is None
        )
        if trusted is not None or not state.landings[-1] or "move of the landing fence" in self.without:
            return self._detect(state, i)
        return self._moves_log(state, i)

    def _detect(self, state: State, i: int) -> State:
        state = super()._detect(state, i)
        if state.runs[i].at != "table" or not state.runs[i].doubtful:
            return state
        state = self._to(state, i, doubtful=False)
        return self._moves_table(state, i) if state.landings[-1] else state

    def _moves_log(self, state: State, i: int) -> State:
        return self._to(state, i, at="move landing", work=Move("landing", (0, state.landings[-1] + 1)))

    def _moves_table(self, state: State, i: int) -> State:
        if "move of the table fence" in self.without:
            return self._to(state, i, at="table")
        landing, count = max(state.fences[-1], (1 if "range numbers" in self.without else 0, 0))
        return self._to(state, i, at="move merge", work=Move("merge", (landing, count + 1)))

    def _run_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        if run.at == "look":
            yield "looks who has tried", self._look(state, i, run)
        elif run.at == "verify":
            yield "looks at the source again", self._verify(state, i, run)
        elif run.at == "checkpoint":
            yield f"checkpoints {run.window}", self._checkpointed(state, i, run.noted[0])
        else:
            yield from super()._run_steps(state, i, run)

    def _look(self, state: State, i: int, run: Run) -> State:
        first = run.together if "second look" in self.without else self._first(state, i)
        if len(first) < 2:
            return self._begin_window(state, i)
        return self._lands_together(state, i, first, run.fence[0] + 1)

    def _lands_together(self, state: State, i: int, windows: tuple[str, ...], number: int) -> State:
        run = state.runs[i]
        noted = dict(zip(run.together, run.noted, strict=True))
        contents = tuple(noted[name] for name in windows)
        landing = RangeLanding(windows, contents, number)
        return self._to(state, i, at="land together", together=windows, noted=contents, work=landing, fence=(0, 0))

    def _verify(self, state: State, i: int, run: Run) -> State:
        now = dict(zip(self.names, self._now(state), strict=True))
        together = tuple(name for name, noted in zip(run.together, run.noted, strict=True) if noted == now[name])
        if not together:
            return self._begin_window(state, i)
        pending = (*together, *(name for name in run.pending if name not in together))
        return self._to(state, i, at="table", together=together, pending=pending, noted=())

    def _went(self, state: State, i: int, what: str) -> State:
        run = state.runs[i]
        again = what in ("is overtaken", "is refused")
        if run.at == "intent":
            return self._intends(state, i) if again else self._to(state, i, at="look")
        if run.at == "move landing":
            return self._moves_log(state, i) if again else self._to(state, i, at="detect")
        if run.at == "move merge":
            return self._moves_table(state, i) if again else self._to(state, i, at="table")
        if run.at == "land together":
            if what == "lands":
                return self._to(state, i, at="verify")
            if "fallback" in self.without:
                return self._lands_together(self._noting(state, i), i, run.together, state.landings[-1] + 1)
            return self._begin_window(state, i)
        if run.at == "merge" and run.together:
            state = self._to(state, i, at="table", committed=run.committed or what == "commits")
            if what == "commits" and "range reconcile" in self.without:
                return self._notes(state, i, run)
            return state
        return super()._went(state, i, what)

    def _fence(self, run: Run) -> int:
        return -1 if run.together else super()._fence(run)

    def _decide(self, state: State, i: int, run: Run) -> tuple[str, State | None]:
        if not run.together:
            return super()._decide(state, i, run)
        windows = tuple(self.names.index(name) for name in run.together)
        plan = self._plan(state, windows, run.row, full=run.full)
        least = (max(landed.number for landed in state.log if landed) if "range numbers" in self.without else 0, 0)
        if run.committed and run.fence > least:
            if not plan.action:
                return "reads the log, all is well", self._notes(state, i, run)
            plan = self._plan(state, windows, run.row, full=True)
            state = self._to(state, i, full=True)
        number = max(run.fence, least)
        return self._sends(state, i, Merge(RANGE, plan, (number[0], number[1] + 1)))

    def _notes(self, state: State, i: int, run: Run) -> State:
        log = dict(zip(self.names, state.log, strict=True))
        noted = tuple(landed.fingerprint for name in run.together if (landed := log[name]) is not None)
        return self._to(state, i, at="checkpoint", row=None, fence=(0, 0), noted=noted)

    def _checkpointed(self, state: State, i: int, content: Content) -> State:
        run = state.runs[i]
        after = super()._checkpointed(state, i, content)
        if len(run.noted) < 2:
            return after
        return self._to(after, i, at="checkpoint", together=run.together[1:], noted=run.noted[1:])

    # the server

    def _lost(self, state: State, work: Work) -> bool:
        if isinstance(work, Move):
            return ((0, state.landings[-1]) if work.table == "landing" else state.fences[-1]) > work.number
        if isinstance(work, RangeLanding):
            moved = state.landings[-1] >= work.number and "range landing fence" not in self.without
            return work.stale or (moved and not work.begun)
        return super()._lost(state, work)

    def _work_step(self, state: State, work: Work) -> tuple[str, State, Work | None]:
        if isinstance(work, Move):
            return *self._move(state, work), None
        if isinstance(work, RangeLanding):
            return self._land_range(state, work)
        return super()._work_step(state, work)

    def _move(self, state: State, work: Move) -> tuple[str, State]:
        if work.table == "landing":
            if (there := (0, state.landings[-1])) >= work.number:
                return "is there" if there == work.number else "is overtaken", state
            return "moves", self._landing_moved(state, work.number[1])
        if (there := state.fences[-1]) >= work.number:
            return "is there" if there == work.number else "is overtaken", state

        def outdated(other: Work) -> Work:
            hit = isinstance(other, Merge) and other.begun and other.fence == RANGE and self._fenced(RANGE)
            return other._replace(stale=True) if hit else other

        return "moves", each_work(state, outdated)._replace(fences=put(state.fences, len(self.names), work.number))

    def _landing_moved(self, state: State, number: int) -> State:
        """The range's fence in the log moves: range landings that have begun lose."""

        def outdated(other: Work) -> Work:
            hit = isinstance(other, RangeLanding) and other.begun and "range landing fence" not in self.without
            return other._replace(stale=True) if hit else other

        return each_work(state, outdated)._replace(landings=put(state.landings, len(self.names), number))

    def _land_range(self, state: State, work: RangeLanding) -> tuple[str, State, Work | None]:
        if not work.begun:
            if state.landings[-1] >= work.number and "range landing fence" not in self.without:
                return "its landing is skipped", state, None
            return "its landing begins", state, work._replace(begun=True)
        if work.stale:
            return "its landing conflicts", state, None
        log = state.log
        for name, content in zip(work.windows, work.contents, strict=True):
            log = put(log, self.names.index(name), Landed(1, content, content, False))
        number = max(state.landings[-1], work.number)
        return "lands", self._landing_moved(state, number)._replace(log=log), None

    def _fenced(self, fence: str) -> bool:
        return super()._fenced(fence) and not (fence == RANGE and "range fence" in self.without)


TOGETHER = ("A", "B")
RANGE_CASES = {
    "a range alone": Case({"A": once(up(5)), "B": once(down(10))}, kills=2, runs=(TOGETHER,)),
    "a range alone, rewritten": Case({"A": ((up(5),), (up(3),)), "B": once(up(4))}, kills=2, runs=(TOGETHER,)),
    "a range alone, rewritten and back": Case(
        {"A": ((up(5),), (up(3),), (up(5),)), "B": once(up(4))}, kills=2, runs=(TOGETHER,)
    ),
    "a range alone, replayed and rewritten": Case(
        {"A": once(up(5)), "B": ((down(10),), ())}, kills=2, replays=1, runs=(TOGETHER,)
    ),
    "a range of three": Case(
        {"A": once(up(5)), "B": once(down(10)), "C": once(up(20))}, kills=2, runs=(("A", "B", "C"),)
    ),
    "a range and a load of one of its windows": Case({"A": once(up(5)), "B": once(down(10))}, runs=(TOGETHER, ("A",))),
    "a range and a load of one of its windows, replayed": Case(
        {"A": once(up(5)), "B": once(down(10))}, kills=0, replays=1, runs=(TOGETHER, ("A",))
    ),
    "a range and a load of one of its windows, rewritten": Case(
        {"A": ((up(5),), (up(3),)), "B": once(up(4))}, kills=0, runs=(TOGETHER, ("A",))
    ),
    "a range and a load of one of its windows, rewritten and back": Case(
        {"A": ((up(3),), (up(5),), (up(3),)), "B": once()}, kills=0, runs=(TOGETHER, ("A",))
    ),
    "a range and a load of another window": Case(
        {"A": once(up(5)), "B": once(down(10)), "C": once(up(20))}, runs=(TOGETHER, ("C",))
    ),
    "a range and a delete in another window": Case(
        {"A": once(up(5)), "B": once(), "C": once(down(10))}, kills=0, runs=(TOGETHER, ("C",))
    ),
    "two ranges with a window in common": Case(
        {"A": once(up(5)), "B": once(down(10)), "C": once(up(20))}, kills=0, runs=(TOGETHER, ("B", "C"))
    ),
}

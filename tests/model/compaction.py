"""Compaction of the log: of the changes of a key in old, settled windows only the newest is kept.

A compaction sends an *intent* (a commit that moves the compaction's fence in the log and marks its windows as
compacted), *looks* which of all that are marked are settled and at rest, *reads* the log, and sends the *removal* (one
transaction, fenced like the intent; of nothing but the fence if nothing is to be removed). A load of a marked window is
refused if the source holds something else than was landed, unless that has been chosen; one that may land moves the
compaction's fence first. Numbers of removals are even, all others odd.

A run that is refused leaves the checkpoint as it is. Dagster takes such a run for failed, so that less is compacted.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.exploration import WRONG, put
from tests.model.protocol import SWITCHES, Model
from tests.model.terms import Case, Content, Landing, Run, State, Work, down, each_work, fold, once, up

COMPACTION = "compaction"
COMPACTION_SWITCHES = {
    "compaction fence": "a removal is skipped or conflicts if the compaction's fence has moved",
    "compaction intent": "the windows are marked and the fence is moved before it is looked who is at rest",
    "clean": "only windows with a clean checkpoint that no run is loading are compacted, and decide what is superseded",
    "keep deletes": "a delete that is the newest change is kept",
    "old only": "a change is superseded only by one that is in a compacted window itself",
    "refusal": "a compacted window is not rewritten unless that has been chosen",
    "move of the compaction fence": "a load that may land a marked window moves the compaction's fence first",
}


def odd(number: int) -> int:
    """The next odd number."""
    return number + 1 + number % 2


class Mark(NamedTuple):
    """The commit of an intent: moves the compaction's fence, and marks windows. Of none: of nothing but the fence."""

    windows: tuple[str, ...]
    number: int


class Removal(NamedTuple):
    """A removal under way: what to leave of each window."""

    windows: tuple[str, ...]
    kept: tuple[Content, ...]
    number: int
    begun: bool = False
    stale: bool = False


class CompactionModel(Model):
    """The protocol with a compaction of the log, which runs once."""

    switches = SWITCHES | COMPACTION_SWITCHES

    def start(self) -> State:
        """Nothing is loaded; the compaction is a run of its own."""
        state = super().start()
        return state._replace(runs=(*state.runs, Run((), "idle", together=self.case.old)))

    def _refused(self, state: State, w: int) -> bool:
        landed, name = state.log[w], self.names[w]
        if name not in state.frozen or name in self.case.chosen or landed is None or "refusal" in self.without:
            return False
        return landed.fingerprint != self._now(state)[w]

    def _settled(self, state: State, w: int) -> bool:
        return super()._settled(state, w) or self._refused(state, w)

    def _forgotten(self, state: State, run: Run) -> bool:
        return run.asked != () and super()._forgotten(state, run)

    def problem(self, state: State) -> str | None:
        """Table and log agree; and if nothing was chosen, the log says what all that was landed says."""
        held = fold(tuple(landed.content for landed in state.log if landed))
        if state.row != held:
            return f"{WRONG}the table holds {state.row}, the log's fold is {held}"
        whole = fold(tuple(landed.fingerprint for landed in state.log if landed))
        if not self.case.chosen and held != whole:
            return f"{WRONG}after the compaction the log's fold is {held}, before it was {whole}"
        return None

    # runs

    def _run_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        if run.at == "idle" and run.asked == ():
            if run.together and self._at_rest(state):
                yield "starts", self._compacts(state, i)
        elif run.at == "killed" and run.asked == ():
            yield "starts", self._compacts(state, i)
        elif run.at == "compaction look":
            yield "looks who is at rest", self._looks(state, i)
        elif run.at == "compaction read":
            yield "reads the log", self._reads(state, i)
        elif run.at in ("idle", "killed") and self._gives_up(state, run):
            if run.at == "killed":
                yield "is refused", state._replace(runs=put(state.runs, i, Run(run.asked)))
        else:
            yield from super()._run_steps(state, i, run)

    def _gives_up(self, state: State, run: Run) -> bool:
        return any(self._refused(state, self.names.index(name)) for name in run.asked)

    def _compacts(self, state: State, i: int) -> State:
        rest, last = self._at_rest(state), state.landings[-1]
        if set(rest) <= set(state.frozen) and last % 2 == 0:
            return self._done(state, i)
        run = Run((), "intent", together=rest, fence=(odd(last), 0), work=Mark(rest, odd(last)))
        if "compaction intent" in self.without:
            run = run._replace(at="compaction look", work=None)
        return state._replace(runs=put(state.runs, i, run))

    def _at_rest(self, state: State) -> tuple[str, ...]:
        """The old windows whose checkpoints are clean and as the log is, and that no run has in hand."""
        landed = {name: landed for name, landed in zip(self.names, state.log, strict=True) if landed}
        there = [name for name in self.case.old if name in landed]
        if "clean" in self.without:
            return tuple(there)
        busy = {name for run in state.runs for name in run.pending}
        known = dict(zip(self.names, state.checkpoints, strict=True))
        clean = [name for name in there if known[name].clean and known[name].content == landed[name].fingerprint]
        return tuple(name for name in clean if name not in busy)

    def _looks(self, state: State, i: int) -> State:
        windows = tuple(name for name in self._at_rest(state) if name in state.frozen)
        if "compaction intent" in self.without:
            windows = state.runs[i].together
        return self._to(state, i, at="compaction read", together=windows, noted=self._fingerprints(state, windows))

    def _fingerprints(self, state: State, windows: tuple[str, ...]) -> tuple[Content, ...]:
        log = dict(zip(self.names, state.log, strict=True))
        return tuple(landed.fingerprint for name in windows if (landed := log[name]))

    def _reads(self, state: State, i: int) -> State:
        run = state.runs[i]
        now = self._fingerprints(state, run.together)
        if "compaction intent" not in self.without:
            same = [name for name, *both in zip(run.together, run.noted, now, strict=True) if both[0] == both[1]]
            run = run._replace(together=tuple(name for name in same if name in state.frozen))
        if not run.together:
            return self._done(state, i)
        contents = {name: landed.content for name, landed in zip(self.names, state.log, strict=True) if landed}
        removal = self._removal(contents, run)
        if removal.kept == tuple(contents[name] for name in run.together):
            return self._moves(state, i, "empty removal", state.landings[-1] + 1)
        return self._to(state, i, at="removal", together=run.together, noted=(), work=removal, fence=(0, 0))

    def _removal(self, contents: dict[str, Content], run: Run) -> Removal:
        deciding = self.names if "old only" in self.without else run.together
        last = max((change for name in deciding for change in contents.get(name, ())), default=None)
        if last is not None and last[1] and "keep deletes" in self.without:
            last = None
        kept = tuple(tuple(change for change in contents[name] if change == last) for name in run.together)
        return Removal(run.together, kept, run.fence[0] + 1)

    def _moves(self, state: State, i: int, at: str, number: int) -> State:
        """A commit of nothing but the fence."""
        return self._to(state, i, at=at, work=Mark((), number), noted=(), fence=(0, 0))

    def _went(self, state: State, i: int, what: str) -> State:
        run = state.runs[i]
        if run.at == "intent":
            return self._to(state, i, at="compaction look") if what == "marks" else self._done(state, i)
        if run.at == "removal":
            return self._done(state, i)
        if run.at == "empty removal":
            return self._done(state, i) if what == "marks" else self._moves(state, i, run.at, state.landings[-1] + 1)
        if run.at == "move":
            return self._to(state, i, at="detect") if what == "marks" else self._holds_off(state, i)
        return super()._went(state, i, what)

    def _done(self, state: State, i: int) -> State:
        return state._replace(runs=put(state.runs, i, Run(())))

    def _begin_window(self, state: State, i: int) -> State:
        return self._detect(self._to(state, i, trusted=self._trusted(state, i), doubtful=True), i)

    def _detect(self, state: State, i: int) -> State:
        run, after = state.runs[i], super()._detect(state, i)
        if after.runs[i].at != "land":
            return after
        is_frozen = run.window in state.frozen
        if self._refused(state, self.names.index(run.window)):
            return state._replace(runs=put(state.runs, i, Run(run.asked)))
        if is_frozen and run.doubtful and "move of the compaction fence" not in self.without:
            return self._holds_off(state, i)
        return self._to(after, i, work=after.runs[i].work._replace(frozen=is_frozen))

    def _holds_off(self, state: State, i: int) -> State:
        """What was removed until the fence has moved is what the landing starts from."""
        return self._to(self._moves(state, i, "move", odd(state.landings[-1])), i, doubtful=False)

    # the server

    def _land(self, state: State, work: Landing) -> tuple[str, State]:
        what, after = super()._land(state, work)
        if what != "lands":
            return what, after
        frozen = {*state.frozen, work.window} if work.frozen else {*state.frozen} - {work.window}
        return what, after._replace(frozen=tuple(sorted(frozen)))

    def _work_step(self, state: State, work: Work) -> tuple[str, State, Work | None]:
        if isinstance(work, Mark):
            if state.landings[-1] >= work.number:
                return "is overtaken", state, None
            frozen = tuple(sorted({*state.frozen, *work.windows}))
            return "marks", self._moved(state, work.number)._replace(frozen=frozen), None
        if isinstance(work, Removal):
            return self._remove(state, work)
        return super()._work_step(state, work)

    def _lost(self, state: State, work: Work) -> bool:
        if isinstance(work, Mark):
            return state.landings[-1] >= work.number
        if isinstance(work, Removal):
            moved = state.landings[-1] >= work.number and "compaction fence" not in self.without
            return work.stale or (moved and not work.begun)
        return super()._lost(state, work)

    def _moved(self, state: State, number: int) -> State:
        def outdated(other: Work) -> Work:
            hit = isinstance(other, Removal) and other.begun and "compaction fence" not in self.without
            return other._replace(stale=True) if hit else other

        return each_work(state, outdated)._replace(landings=put(state.landings, len(self.names), number))

    def _remove(self, state: State, work: Removal) -> tuple[str, State, Work | None]:
        if self._lost(state, work):
            return "its removal is refused", state, None
        if not work.begun:
            return "its removal begins", state, work._replace(begun=True)
        log = state.log
        for name, content in zip(work.windows, work.kept, strict=True):
            landed = log[self.names.index(name)]
            assert landed is not None
            left = tuple(change for change in landed.content if change in content)
            log = put(log, self.names.index(name), landed._replace(content=left))
        return "removes", self._moved(state, max(work.number, state.landings[-1]))._replace(log=log), None


COMPACTION_CASES = {
    "superseded across windows": Case({"A": once(up(5)), "B": once(up(7))}, kills=1, old=("A", "B")),
    "late older change": Case({"A": once(up(3), down(9)), "C": once(up(4))}, kills=1, old=("A",)),
    "late older change, deleted and revived": Case(
        {"A": once(down(5)), "B": once(up(7)), "C": once(up(4))}, kills=0, old=("A", "B")
    ),
    "newer delete withdrawn later": Case({"A": once(up(3), up(5)), "C": ((down(9),), ())}, kills=1, old=("A",)),
    "rewrite refused": Case({"A": once(up(5)), "B": ((up(7),), ())}, kills=1, old=("A", "B")),
    "rewrite chosen": Case({"A": once(up(5)), "B": ((up(7),), ())}, kills=1, old=("A", "B"), chosen=("B",)),
    "rewritten while it is about to be landed again": Case({"A": ((up(3), up(7)), ())}, kills=1, replays=1, old=("A",)),
    "replayed": Case({"A": once(up(3), up(5)), "C": once(up(4))}, kills=1, replays=1, old=("A",)),
}

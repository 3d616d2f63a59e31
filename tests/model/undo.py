"""Undo: a run returns a window to what it held before, and holds it until its source changes.

An undo reads the window's record, lands the former content under the next number, and merges like a load. Its record is
*held*: it says what the source holds that the window is not to have. A load that finds the source like that refuses; or
it merges and checkpoints what the log holds, if the undo was killed before its checkpoint. A source that changes ends
the hold.

At rest each window holds what its source holds, or it is held and has its former content; and a finished undo is only
gone if its source has changed.
"""

from collections.abc import Iterator

from tests.model.exploration import WRONG, put
from tests.model.protocol import SWITCHES, Model
from tests.model.terms import Case, Content, Landed, Landing, Run, State, down, fold, newest, once, up

UNDO = ("undo",)
UNDO_SWITCHES = {
    "refusal": "a load does not land a held window while its source is as it was",
    "completion": "a held window is done only when what it holds is checkpointed; until then a load merges it",
}


class UndoModel(Model):
    """The protocol with runs that undo; each undoes the last landing of a window once."""

    switches = SWITCHES | UNDO_SWITCHES

    def __init__(self, case: Case, without: frozenset[str] = frozenset(), undos: int = 1) -> None:
        super().__init__(case, without)
        self.undos = undos

    def start(self) -> State:
        """Nothing is loaded; runs that undo the first window wait."""
        state = super().start()
        undo = Run((self.names[0],), together=UNDO)
        return state._replace(runs=(*state.runs, *[undo] * self.undos), undone=(None,) * len(self.names))

    def canonical(self, state: State) -> State:
        """Runs that undo stay last: they differ from loads of the same window."""
        last = len(state.runs) - self.undos
        runs = state.runs
        found = super().canonical(state._replace(runs=runs[:last]))
        undos = tuple(
            run._replace(work=None, at="detect")
            if run.at == "land" and run.work and self._lost(state, run.work)
            else run
            for run in runs[last:]
        )
        return found._replace(runs=(*found.runs, *sorted(undos, key=hash)))

    def _held(self, state: State, w: int) -> bool:
        landed = state.log[w]
        return landed is not None and landed.held == self._now(state)[w]

    def _settled(self, state: State, w: int) -> bool:
        landed = state.log[w]
        if landed is None or not self._held(state, w) or "refusal" in self.without:
            return super()._settled(state, w)
        return state.checkpoints[w].content == landed.fingerprint or "completion" in self.without

    def _forgotten(self, state: State, run: Run) -> bool:
        return super()._forgotten(state, run) or all(
            self._held(state, w) and "completion" in self.without for w in map(self.names.index, run.asked)
        )

    def problem(self, state: State) -> str | None:
        """Log, table and source agree, but for what is held."""
        now = self._now(state)
        for w, landed in enumerate(state.log):
            if not self._held(state, w):
                if (landed.content if landed else ()) != now[w]:
                    return f"{WRONG}the log holds {landed}, the source {now[w]}"
                if state.undone[w] == now[w]:
                    return f"{WRONG}{self.names[w]} was undone, and holds again what it held"
        wanted = fold(tuple(landed.content for landed in state.log if landed))
        return None if state.row == wanted else f"{WRONG}the table holds {state.row}, the log's fold is {wanted}"

    def steps(self, state: State) -> Iterator[tuple[str, State | None]]:
        """As for loads; a source that changes is no longer what was undone."""
        for what, after in super().steps(state):
            if after is not None and after.source != state.source:
                kept = zip(state.undone, state.source, after.source, strict=True)
                after = after._replace(undone=tuple(was if old == new else None for was, old, new in kept))
            yield what, after

    def _run_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        if run.together == UNDO and run.at == "idle":
            w = self.names.index(run.asked[0])
            if (before := state.log[w]) is not None and before.held is None:
                yield "starts to undo", self._prepares(state._replace(runs=put(state.runs, i, self._undo(run))), i)
        elif i >= len(state.runs) - self.undos and run.at in ("idle", "killed"):
            return  # has undone, or was killed and is not started again
        else:
            yield from super()._run_steps(state, i, run)

    @staticmethod
    def _undo(run: Run) -> Run:
        return Run(run.asked, "undo", run.asked, together=UNDO)

    def _detect(self, state: State, i: int) -> State:
        run = state.runs[i]
        if run.together == UNDO:
            return self._to(state, i, at="table") if run.landed else self._prepares(state, i)
        w = self.names.index(run.window)
        before = state.log[w]
        if before is None or not self._held(state, w) or "refusal" in self.without:
            return super()._detect(state, i)
        if state.checkpoints[w].content == before.fingerprint or "completion" in self.without:
            return state._replace(runs=put(state.runs, i, Run(run.asked)))
        return self._to(state, i, at="table")

    def _prepares(self, state: State, i: int) -> State:
        run = state.runs[i]
        w = self.names.index(run.window)
        before = state.log[w]
        assert before is not None
        if before.held is not None:  # somebody else has undone it
            return self._to(state, i, at="table")
        former = self._former(w, before.fingerprint)
        gone, newer = newest(tuple(set(before.content) - set(former))), newest(former)
        taken = gone is not None and (newer is None or gone > newer)
        landed = Landed(before.number + 1, former, former, taken or before.marked, held=before.fingerprint)
        return self._to(state, i, at="land", work=Landing(run.window, landed))

    def _former(self, w: int, content: Content) -> Content:
        contents = self.case.windows[self.names[w]]
        place = contents.index(content)
        return contents[place - 1] if place else ()

    def _checkpointed(self, state: State, i: int, content: Content) -> State:
        run = state.runs[i]
        w = self.names.index(run.window)
        after = super()._checkpointed(state, i, content)
        landed = state.log[w]
        if run.together == UNDO and landed is not None and landed.held == self._now(state)[w]:
            after = after._replace(undone=put(after.undone, w, landed.held))
        return after


UNDO_CASES = {
    "bad first load": Case({"A": once(up(9)), "B": once(up(4))}, kills=1),
    "bad rewrite": Case({"A": ((up(5),), (up(9),)), "B": once(up(7))}, kills=0),
    "bad rewrite, killed": Case({"A": ((up(5),), (down(6),))}, kills=2),
    "bad delete": Case({"A": once(down(9)), "B": once(up(4))}, kills=0, replays=1),
    "undone, then corrected": Case({"A": ((up(9),), (up(3),)), "B": once(up(4))}, kills=0),
    "loaded by hand after it": Case({"A": once(up(9))}, kills=1, replays=1),
}

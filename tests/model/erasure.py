"""Erasure of a data subject beside loads: no row of the subject stays, and none comes back.

There is a deny list, and a *barrier*, which is a property of the log. A load reads the barrier, then the deny list, and
stages what the source holds without the rows of denied subjects. Its landing is rejected if the barrier was raised
since. An erasure

1. *denies* the subject, and *raises* the barrier of the log, which rejects landings staged without regard to the
   subject;
2. *finds* the windows whose log has rows of the subject, or that an erasure has landed and not finished;
3. lands each of them from the log without these rows, as one that is *erasing*, and merges it like a load. Then it
   lands what it has merged once more, without markers;
4. *calls off* all MERGEs planned so far by moving the MERGE fence of every window, then *sweeps*: a row of the subject
   that the table still has is replaced by what the log now says of its key;
5. *lists* the files, raises the barriers of log and table, which rejects all commits that use uncommitted files of the
   list, and *removes* the files of the list that no present version uses;
6. *proves* that log and table have nothing of the subject.

An erasure that was killed is started again from the beginning. Dagster's checkpoints say nothing of it. From the proof
on, nothing may bring a row of the subject back, and no commit may use a file that was removed.
"""

from collections.abc import Iterator

from tests.model.exploration import WRONG, put
from tests.model.protocol import SWITCHES, Model, full_plan
from tests.model.terms import (
    Case,
    Change,
    Content,
    Landed,
    Landing,
    Merge,
    Plan,
    Run,
    State,
    Work,
    down,
    each_work,
    fold,
    newest,
    once,
    up,
)

SUBJECT = 9
"""The content of rows of the subject."""
SWEEP = "sweep"
ERASURE_SWITCHES = {
    "barrier": "a landing is rejected if the barrier of the log was raised since its load read it",
    "deny first": "the subject is denied before the barrier is raised and the windows are found, not after",
    "list after barrier": "a load reads the deny list after the barrier, not before",
    "fold": "marked keys are folded in full",
    "erasing": "a window that an erasure has landed and not finished is found by the next",
    "unsettled": "a load that replaces such a window keeps its markers, whatever its checkpoint says",
    "carry": "the landing of an erasure keeps the markers that the window has",
    "as merged": "the landing without markers is of what was merged, and is rejected if another came between",
    "call off": "the MERGE fence of every window is moved after the last landing",
    "sweep": "rows of the subject in the table are replaced by what the log says of their keys",
    "list first": "the files to be removed are listed before the barriers are raised again",
    "second barrier": "the barriers are raised again before files are removed",
    "table barrier": "not only the barrier of the log is raised again, but that of the table, too",
}


def without_subject(content: Content) -> Content:
    """The changes that are not of the subject."""
    return tuple(change for change in content if change[2] != SUBJECT)


def loses(before: Landed, content: Content) -> bool:
    """Whether the key is to be folded in full because other content replaces that of a window."""
    gone, newer = newest(tuple(set(before.content) - set(content))), newest(content)
    return gone is not None and (newer is None or newer < gone)


class ErasureModel(Model):
    """The protocol with a run that erases the subject.

    Args:
        case: What to explore.
        without: Parts of the protocol to switch off, names of ``switches``.
    """

    switches = SWITCHES | ERASURE_SWITCHES

    def __init__(self, case: Case, without: frozenset[str] = frozenset()) -> None:
        super().__init__(case, without)
        changes = [change for contents in case.windows.values() for content in contents for change in content]
        self.is_key_of_subject = all(change[2] == SUBJECT for change in changes)

    def start(self) -> State:
        """Nothing is loaded; the erasure may begin at any time."""
        state = super().start()
        return state._replace(runs=(*state.runs, Run(())))

    def rests(self, state: State) -> bool:
        """As for loads, and the erasure has finished."""
        return state.erasure == "finished" and super().rests(state)

    def problem(self, state: State) -> str | None:
        """Log, table and source agree, but for the subject."""
        now = tuple(without_subject(content) for content in self._now(state))
        held = tuple(landed.content if landed else () for landed in state.log)
        if held != now:
            return f"{WRONG}the log holds {held}, the source without the subject {now}"
        return None if state.row == fold(now) else f"{WRONG}the table holds {state.row}, the fold is {fold(now)}"

    def steps(self, state: State) -> Iterator[tuple[str, State | None]]:
        """As for loads; after the proof nothing of the subject comes back."""
        for what, after in super().steps(state):
            if after is not None and after.erasure == "finished" and (where := self._remains(after)):
                yield f"{WRONG}the {where} has a row of the subject after its erasure: {what}", None
            elif after is not None and after.erasure == "broken":
                yield f"{WRONG}a commit uses files that were removed: {what}", None
            else:
                yield what, after

    def _remains(self, state: State) -> str:
        if state.row is not None and state.row[2] == SUBJECT:
            return "table"
        return "log" if any(landed is not None and self._is_of_subject(landed) for landed in state.log) else ""

    def _is_of_subject(self, landed: Landed) -> bool:
        """Whether a window has rows of the subject; a marker has the key, which may be the subject's."""
        return without_subject(landed.content) != landed.content or (landed.marked and self.is_key_of_subject)

    # loads

    def _trusted(self, state: State, i: int) -> Content | None:
        """An erasure is no run of the window in Dagster."""
        runs = tuple(run if run.asked else Run(()) for run in state.runs)
        return super()._trusted(state._replace(runs=runs), i)

    def _begin_window(self, state: State, i: int) -> State:
        return self._reads_first(super()._begin_window(state, i), i)

    def _reads_first(self, state: State, i: int) -> State:
        """A load reads the barrier; the deny list only with the source."""
        denied = bool(state.erasure) if "list after barrier" in self.without else False
        return self._to(state, i, at="stage", work=None, barred=False, denied=denied)

    def _reads_then(self, state: State, i: int) -> State:
        if "list after barrier" in self.without:
            state = self._to(state, i, barred=False)
        else:
            state = self._to(state, i, denied=bool(state.erasure))
        return self._detect(state, i)

    def _detect(self, state: State, i: int) -> State:
        run = state.runs[i]
        after = self._to(super()._detect(state, i), i, barred=False, denied=False)
        work, before = after.runs[i].work, state.log[self.names.index(run.window)]
        if not isinstance(work, Landing):
            return after
        landed = work.landed
        if run.denied:
            landed = landed._replace(content=without_subject(landed.content))
        if before is not None:
            settled = run.trusted == before.fingerprint and not run.landed
            if before.erasing and "unsettled" not in self.without:
                settled = False
            landed = landed._replace(marked=loses(before, landed.content) or (before.marked and not settled))
        return self._to(after, i, work=Landing(run.window, landed, barred=run.barred))

    def _run_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        if not run.asked:
            yield from self._erasure_steps(state, i, run)
        elif run.at == "detect":
            yield "reads the barrier", self._reads_first(state, i)
        elif run.at == "stage":
            yield "reads the deny list, looks at the source", self._reads_then(state, i)
        else:
            yield from super()._run_steps(state, i, run)

    def _killed(self, state: State, i: int, run: Run) -> State:
        after = super()._killed(state, i, run if run.asked else run._replace(pending=()))
        return after._replace(runs=tuple(r if r.asked else r._replace(overlapped=False) for r in after.runs))

    # the erasure

    def _erasure_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        if run.at in ("idle", "killed"):
            if run.at == "killed" or state.erasure != "finished":
                begun = state._replace(runs=put(state.runs, i, Run((), self._after("start"))))
                yield from self._erasure_steps(begun, i, begun.runs[i])
        elif run.at == "deny":
            denied = state._replace(erasure=state.erasure or "denied")
            yield "denies the subject", self._to(denied, i, at=self._after("deny"))
        elif run.at == "raise":
            yield "raises the barrier", self._to(self._bars(state), i, at="find")
        elif run.at == "find":
            found = self._found(state)
            yield f"finds {'+'.join(found) or 'nothing'}", self._to(state, i, pending=found, at=self._after("find"))
        elif run.at == "windows":
            yield self._prepares(state, i)
        elif run.at == "strip":
            yield "prepares its last landing", self._strips(state, i)
        elif run.at == "call off":
            yield "calls off all MERGEs", self._to(self._calls_off(state), i, at=self._after("call off"))
        elif run.at == "sweep":
            is_clean = state.row is None or state.row[2] != SUBJECT
            left = Run((), self._after("sweep")) if is_clean else Run((), "plan", row=state.row, fence=state.fences[-1])
            yield "looks for rows of the subject in the table", state._replace(runs=put(state.runs, i, left))
        elif run.at == "plan":
            everything = tuple(change for landed in state.log if landed for change in landed.content)
            plan = full_plan(newest(everything), run.row)
            work = Merge(SWEEP, plan, (0, run.fence[1] + 1))
            yield f"reads the log, plans {plan}", self._to(state, i, at=SWEEP, work=work, row=None, fence=(0, 0))
        elif run.at == "list":
            yield "lists the files", self._to(self._marks(state, "listed"), i, at=self._after("list"))
        elif run.at == "raise both":
            both = self._bars(state) if "table barrier" in self.without else self._bars_table(self._bars(state))
            yield "raises the barriers", self._to(both, i, at="remove")
        elif run.at == "remove":
            yield "removes the files", self._to(self._marks(state, "removed"), i, at="prove")
        elif run.at == "prove":
            yield "proves", state._replace(runs=put(state.runs, i, Run(())), erasure="finished")
        else:
            yield from super()._run_steps(state, i, run)

    def _after(self, step: str) -> str:
        """The step that follows."""
        late = "deny first" in self.without
        steps = ["start", "raise", "find", "deny"] if late else ["start", "deny", "raise", "find"]
        steps += ["windows", "call off", "sweep", "list", "raise both", "remove"]
        off = {"call off": "call off", "sweep": "sweep", "list first": "list", "second barrier": "raise both"}
        left = [name for name in steps if name not in {off[part] for part in off.keys() & self.without}]
        return next(name for name in left if steps.index(name) > steps.index(step))

    def _found(self, state: State) -> tuple[str, ...]:
        both = zip(self.names, state.log, strict=True)
        return tuple(name for name, landed in both if landed and (landed.erasing or self._is_of_subject(landed)))

    def _prepares(self, state: State, i: int) -> tuple[str, State]:
        """The landing of the next window without the subject's rows; none if it has none."""
        run = state.runs[i]
        if not run.pending:
            return "has landed all", self._to(state, i, at=self._after("windows"))
        w = self.names.index(run.window)
        before = state.log[w]
        assert before is not None
        content = without_subject(before.content)
        if content == before.content:
            return f"finds that {run.window} has no rows of the subject", self._to(state, i, at="table")
        marked = loses(before, content) or (before.marked and "carry" not in self.without)
        landed = before._replace(number=self._next(state, w), content=content, marked=marked, erasing=True)
        if "erasing" in self.without:
            landed = landed._replace(erasing=False)
        return f"prepares to land {run.window}", self._to(state, i, at="land", work=Landing(run.window, landed))

    @staticmethod
    def _next(state: State, w: int) -> int:
        before = state.log[w]
        return max(before.number if before else 0, state.landings[w]) + 1

    def _finished(self, state: State, i: int) -> State:
        run = state.runs[i]
        if run.asked:
            return super()._finished(state, i)
        return self._to(state, i, at="strip") if "as merged" in self.without else self._strips(state, i)

    def _strips(self, state: State, i: int) -> State:
        """The landing of a merged window without its markers."""
        run = state.runs[i]
        w = self.names.index(run.window)
        merged = state.log[w]
        assert merged is not None
        if not (merged.marked or merged.erasing):
            return self._goes_on(state, i)
        landed = merged._replace(number=self._next(state, w), marked=False, erasing=False)
        kept = Run((), "strip it", run.pending, work=Landing(run.window, landed))
        return state._replace(runs=put(state.runs, i, kept))

    def _goes_on(self, state: State, i: int) -> State:
        return state._replace(runs=put(state.runs, i, Run((), "windows", state.runs[i].pending[1:])))

    def _went(self, state: State, i: int, what: str) -> State:
        run = state.runs[i]
        if run.asked or run.at == "merge":
            return super()._went(state, i, what)
        if run.at == SWEEP:
            return self._to(state, i, at="sweep")
        if what != "lands":  # somebody else has landed the window
            return state._replace(runs=put(state.runs, i, Run((), "windows", run.pending)))
        return self._to(state, i, at="table", landed=True) if run.at == "land" else self._goes_on(state, i)

    def _bars(self, state: State) -> State:
        """The barrier of the log is raised."""
        runs = tuple(run._replace(barred=True) if run.at == "stage" else run for run in state.runs)
        return each_work(
            state._replace(runs=runs), lambda work: work._replace(barred=True) if isinstance(work, Landing) else work
        )

    @staticmethod
    def _bars_table(state: State) -> State:
        """A change of a property: it conflicts with every MERGE that has begun."""
        return each_work(
            state, lambda work: work._replace(stale=True) if isinstance(work, Merge) and work.begun else work
        )

    def _calls_off(self, state: State) -> State:
        """One commit moves the MERGE fences of all windows that were ever landed, and that of the sweep."""
        least = [landed.number if landed else 0 for landed in state.log]
        fences = [
            (last[0], last[1] + 1) if last[0] >= number else (number, 1)
            for number, last in zip([*least, 0], state.fences, strict=True)
        ]
        return self._bars_table(state._replace(fences=tuple(fences)))

    def _marks(self, state: State, how: str) -> State:
        """Files that are written and not committed are listed, or those listed removed."""

        def marked(work: Work) -> Work:
            is_writing = isinstance(work, Landing) or (isinstance(work, Merge) and work.begun and work.plan.action)
            is_due = how == "listed" or "list first" in self.without or (is_writing and work.files)
            return work._replace(files=how) if is_writing and is_due else work

        return each_work(state, marked)

    # the server

    def _lost(self, state: State, work: Work) -> bool:
        if isinstance(work, Landing) and work.barred and "barrier" not in self.without:
            return True
        return super()._lost(state, work)

    def _land(self, state: State, work: Landing) -> tuple[str, State]:
        if self._lost(state, work):
            return "its landing is skipped", state
        what, after = super()._land(state, work)
        return what, self._broken(after, work) if what == "lands" else after

    def _merge(self, state: State, work: Merge) -> tuple[str, State, Work | None]:
        what, after, left = super()._merge(state, work)
        return what, self._broken(after, work) if what == "commits" else after, left

    @staticmethod
    def _broken(state: State, work: Work) -> State:
        return state._replace(erasure="broken") if work.files == "removed" else state

    def _plan(self, state: State, windows: tuple[int, ...], row: Change | None, *, full: bool) -> Plan:
        if "fold" in self.without:
            state = state._replace(log=tuple(landed and landed._replace(marked=False) for landed in state.log))
        return super()._plan(state, windows, row, full=full)


ERASURE_CASES = {
    "only change": Case({"A": once(up(5, SUBJECT))}, kills=2),
    "newest change of a window": Case({"A": once(up(3), up(5, SUBJECT))}, kills=2),
    "delete in a window": Case({"A": once(up(3), down(5, SUBJECT))}, kills=1),
    "comes by a rewrite": Case({"A": ((up(3),), (up(5, SUBJECT),))}, kills=1),
    "goes by a rewrite": Case({"A": ((up(5, SUBJECT),), (up(3),))}, kills=1),
    "beside a rewrite": Case({"A": ((up(4), up(5, SUBJECT)), (up(5, SUBJECT),))}, kills=1),
    "older change comes by a rewrite": Case({"A": ((up(6),), (up(2, SUBJECT), up(3)))}, kills=1),
    "newest change": Case({"A": once(up(5, SUBJECT)), "B": once(up(4))}, kills=0),
    "older change": Case({"A": once(up(5, SUBJECT)), "B": once(up(7))}, kills=0),
    "delete": Case({"A": once(down(5, SUBJECT)), "B": once(up(4))}, kills=0),
    "in both windows": Case({"A": once(up(5, SUBJECT)), "B": once(up(6, SUBJECT))}, kills=0),
    "delete goes by a rewrite": Case({"A": ((down(5, SUBJECT),), (up(1),)), "B": once(up(4))}, kills=0),
}

"""Brute-force model of the load protocol: every interleaving of a few loads of one key, with kills.

A step is one read or one commit of ``incload_assets.loading``: *start* (Dagster's checkpoint, the source's position,
the window's control row), *land* (the fenced replacement of the window in the log), *table* and *log* (the two reads a
plan is made from), *begin* and *commit* of the MERGE. A run may be killed at any point; what it had sent to the server,
a landing or a MERGE, lives on as a zombie that may go on at any later moment, and the run is started again.

Whenever every run is done and nothing is under way, the log has to hold what the source holds, and the table its fold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Change = tuple[int, bool, int]
"""(sequence, is delete, content hash): the natural order of these tuples is the order of changes."""

Content = tuple[Change, ...]
MAX_MERGES = 8
SWITCHES = {
    "fence": "a MERGE is skipped or conflicts if its window's fence has moved",
    "reconcile": "after a MERGE the table is read again, then the log, and what differs is repaired",
    "guard": "a MERGE judges order (fast) or compares and swaps (full) on its own snapshot",
    "landing fence": "a landing is skipped if its window has been landed since it was prepared",
    "markers": "a key that had a row taken away from its window is folded in full",
    "carried markers": "markers of a landing that is not known to be reconciled are kept by the next",
    "distrust": "a checkpoint is trusted only if no other run of its window failed since its own began, or is running",
    "renumbering": "without a trusted checkpoint an unchanged window gets a new landing number, which outdates landings"
    " that a killed run left behind",
}
"""The parts of the protocol; each can be switched off, and then some case goes wrong."""


def up(sequence: int, content: int = 0) -> Change:
    """An upsert."""
    return (sequence, False, content)


def down(sequence: int, content: int = 0) -> Change:
    """A delete."""
    return (sequence, True, content)


class Landed(NamedTuple):
    """A window in the log."""

    number: int
    content: Content
    marked: bool


class Checkpoint(NamedTuple):
    """What Dagster knows of a window: the position materialized last, and whether nothing failed since."""

    content: Content | None
    clean: bool


class Plan(NamedTuple):
    """What a MERGE is told to do with the key. ``action`` is insert, update, delete, or empty for nothing."""

    action: str
    order: Change | None
    seen: Change | None
    full: bool


class Merge(NamedTuple):
    """A MERGE under way. ``begun``: it took its own snapshot; ``stale``: a row it read, or its fence, changed since."""

    window: str
    plan: Plan
    number: tuple[int, int]
    begun: bool = False
    row: Change | None = None
    stale: bool = False


class Landing(NamedTuple):
    """A landing under way, made from the landing with number ``former``."""

    window: str
    former: int
    landed: Landed


class Run(NamedTuple):
    """One load of one window: where it stands, and what it remembers.

    ``trusted``: the position of a clean checkpoint. ``overlapped``: another run of the window was killed meanwhile.
    """

    window: str
    at: str = "idle"
    trusted: Content | None = None
    landed: bool = False
    committed: bool = False
    overlapped: bool = False
    row: Change | None = None
    fence: tuple[int, int] = (0, 0)
    work: Merge | Landing | None = None


class State(NamedTuple):
    """Everything there is. Windows are positions in the tuples; see ``Case.windows``."""

    source: tuple[int, ...]
    log: tuple[Landed | None, ...]
    row: Change | None
    fences: tuple[tuple[int, int], ...]
    checkpoints: tuple[Checkpoint, ...]
    runs: tuple[Run, ...]
    zombies: tuple[Merge | Landing, ...]
    kills: int
    replays: int


@dataclass(frozen=True)
class Case:
    """What happens at the source, and how much may go wrong.

    Args:
        windows: Per window the contents that its source has, one after the other.
        kills: How many runs may be killed.
        replays: How many runs may be started although nothing changed.
        twice: Windows that two runs load at once.
    """

    windows: dict[str, tuple[Content, ...]]
    kills: int = 1
    replays: int = 0
    twice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What an exploration saw: how many states, how many of them at rest, and a trace to each kind of wrong one."""

    states: int
    at_rest: int
    wrong: list[list[str]]


def newest(changes: tuple[Change, ...]) -> Change | None:
    """The change that decides, or None."""
    return max(changes, default=None)


def fold(contents: tuple[Content, ...]) -> Change | None:
    """The row that the table should have: the newest change, unless it is a delete."""
    last = newest(tuple(change for content in contents for change in content))
    return None if last is None or last[1] else last


class Model:
    """The protocol on one case.

    Args:
        case: What to explore.
        without: Parts of the protocol to switch off, names of ``SWITCHES``.
    """

    def __init__(self, case: Case, without: frozenset[str] = frozenset()) -> None:
        assert without <= SWITCHES.keys(), without
        self.case, self.without = case, without
        self.names = tuple(case.windows)

    def explore(self, *, stop_when_wrong: bool = False) -> Outcome:
        """Visit every reachable state, or those up to the first that is wrong."""
        runs = tuple(Run(name) for name in (*self.names, *self.case.twice))
        n = len(self.names)
        start = State(
            (0,) * n, (None,) * n, None, ((0, 0),) * n, (Checkpoint(None, False),) * n, runs, (),
            self.case.kills, self.case.replays,
        )  # fmt: skip
        parents: dict[State, tuple[State, str] | None] = {start: None}
        stack, at_rest = [start], 0
        wrong: list[list[str]] = []
        while stack and not (wrong and stop_when_wrong):
            state = stack.pop()
            problem = None
            if self._rests(state):
                at_rest += 1
                problem = self._problem(state)
            for label, after in self._steps(state):
                if after is None:
                    problem = label
                elif (after := self._canonical(after)) not in parents:
                    parents[after] = (state, label)
                    stack.append(after)
            if problem and len(wrong) < 3:
                wrong.append([*self._trace(parents, state), problem])
        return Outcome(len(parents), at_rest, wrong)

    def _canonical(self, state: State) -> State:
        # which of two runs of one window is which, and which zombie, does not matter
        if self.case.twice:
            state = state._replace(runs=tuple(sorted(state.runs, key=hash)))
        if len(state.zombies) > 1:
            state = state._replace(zombies=tuple(sorted(state.zombies, key=hash)))
        return state

    @staticmethod
    def _trace(parents: dict[State, tuple[State, str] | None], state: State) -> list[str]:
        lines: list[str] = []
        while (parent := parents[state]) is not None:
            state, label = parent
            lines.append(label)
        return lines[::-1]

    def _now(self, state: State) -> tuple[Content, ...]:
        return tuple(self.case.windows[name][at] for name, at in zip(self.names, state.source, strict=True))

    def _rests(self, state: State) -> bool:
        """Everything at the source is checkpointed, nothing is under way."""
        done = all(c.content == now for c, now in zip(state.checkpoints, self._now(state), strict=True))
        return done and not state.zombies and all(run.at == "idle" for run in state.runs)

    def _problem(self, state: State) -> str | None:
        now = self._now(state)
        held = tuple(landed.content if landed else () for landed in state.log)
        if held != now:
            return f"WRONG: the log holds {held}, the source {now}"
        return None if state.row == fold(now) else f"WRONG: the table holds {state.row}, the fold is {fold(now)}"

    # steps

    def _steps(self, state: State) -> Iterator[tuple[str, State | None]]:
        for i, name in enumerate(self.names):
            if state.source[i] + 1 < len(self.case.windows[name]) and state.log[i] is not None:
                yield f"source {name} is rewritten", state._replace(source=_put(state.source, i, state.source[i] + 1))
        for i, run in enumerate(state.runs):
            label = f"run {i} of {run.window}: "
            for what, after in self._run_steps(state, i, run):
                yield label + what, after
            if state.kills and run.at not in ("idle", "killed"):
                yield label + "killed", self._killed(state, i, run)
        for i, zombie in enumerate(state.zombies):
            what, after, left = self._work_step(state, zombie)
            zombies = after.zombies[:i] + (() if left is None else (left,)) + after.zombies[i + 1 :]
            yield f"zombie of {zombie.window}: {what}", after._replace(zombies=zombies)

    def _killed(self, state: State, i: int, run: Run) -> State:
        w = self.names.index(run.window)
        zombies = state.zombies if run.work is None else (*state.zombies, run.work)
        runs = tuple(
            other._replace(overlapped=True)
            if other.window == run.window and other.at not in ("idle", "killed")
            else other
            for other in state.runs
        )
        return state._replace(
            runs=_put(runs, i, Run(run.window, "killed")),
            zombies=zombies,
            checkpoints=_put(state.checkpoints, w, state.checkpoints[w]._replace(clean=False)),
            kills=state.kills - 1,
        )

    def _run_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        w = self.names.index(run.window)

        def to(state: State = state, **changed: Any) -> State:
            return state._replace(runs=_put(state.runs, i, state.runs[i]._replace(**changed)))

        if run.at in ("idle", "killed"):
            due = state.checkpoints[w].content != self._now(state)[w]
            if run.at == "killed" or due:
                yield "starts", self._detect(state, i, w, fresh=True)
            elif state.replays:
                yield "starts again", self._detect(state, i, w, fresh=True)._replace(replays=state.replays - 1)
        elif run.at == "detect":
            yield "looks at the source", self._detect(state, i, w, fresh=False)
        elif run.at == "table":
            yield "reads the table", to(at="log", row=state.row, fence=state.fences[w])
        elif run.at == "log":
            yield self._decide(state, i, w, run)
        else:
            assert run.work is not None
            what, after, left = self._work_step(state, run.work)
            if left is not None:
                yield what, to(after, work=left)
            elif run.at == "land":
                yield what, to(after, at="detect", work=None, landed=run.landed or what == "lands")
            elif what == "commits" and "reconcile" in self.without:
                yield what, self._finished(after, i, w)
            else:
                yield what, to(after, at="table", work=None, committed=run.committed or what == "commits")

    def _detect(self, state: State, i: int, w: int, *, fresh: bool) -> State:
        run = state.runs[i]
        if fresh:
            others = any(
                j != i and other.window == run.window and other.at != "idle" for j, other in enumerate(state.runs)
            )
            known = state.checkpoints[w]
            clean = (known.clean and not others) or "distrust" in self.without
            run = Run(run.window, trusted=known.content if clean else None)
        position, before = self._now(state)[w], state.log[w]
        landed = Landed(1, position, False)
        if before is not None and before.content == position:
            trusted = run.trusted == position or run.landed or "renumbering" in self.without
            if trusted:
                return state._replace(runs=_put(state.runs, i, run._replace(at="table")))
            landed = before._replace(number=before.number + 1)
        elif before is not None:
            settled = (run.trusted == before.content and not run.landed) or "carried markers" in self.without
            taken = bool(set(before.content) - set(position)) and "markers" not in self.without
            landed = Landed(before.number + 1, position, taken or (before.marked and not settled))
        work = Landing(run.window, landed.number - 1, landed)
        return state._replace(runs=_put(state.runs, i, run._replace(at="land", work=work)))

    def _decide(self, state: State, i: int, w: int, run: Run) -> tuple[str, State | None]:
        mine = state.log[w]
        assert mine is not None
        number = max((mine.number, 0), run.fence)
        merged = run.fence > (mine.number, 0)
        quiet = run.trusted == mine.content and not run.landed
        plan = self._plan(state, w, run.row, full=mine.marked)
        if merged and (run.committed or quiet):
            if not plan.action:
                return "reads the log, all is well, checkpoints", self._finished(state, i, w)
            plan = self._plan(state, w, run.row, full=True)
        if number[1] >= MAX_MERGES:
            return f"WRONG: {MAX_MERGES} merges and still not reconciled", None
        work = Merge(run.window, plan, (number[0], number[1] + 1))
        planned = run._replace(at="merge", work=work, row=None, fence=(0, 0))
        return f"reads the log, plans {plan}", state._replace(runs=_put(state.runs, i, planned))

    def _finished(self, state: State, i: int, w: int) -> State:
        mine = state.log[w]
        assert mine is not None
        return state._replace(
            runs=_put(state.runs, i, Run(self.names[w])),
            checkpoints=_put(state.checkpoints, w, Checkpoint(mine.content, not state.runs[i].overlapped)),
        )

    def _plan(self, state: State, w: int, row: Change | None, *, full: bool) -> Plan:
        mine = state.log[w]
        assert mine is not None
        everything = tuple(change for landed in state.log if landed for change in landed.content)
        if full:
            order = newest(everything)
            gone = order is None or order[1]
            if gone:
                return Plan("" if row is None else "delete", order, row, True)
            return Plan("insert" if row is None else "update" if row != order else "", order, row, True)
        if not mine.content:  # the key does not concern this window
            return Plan("", None, None, False)
        order = max(mine.content)
        deletes = newest(tuple(change for change in everything if change[1]))
        if deletes is not None and deletes > order:
            order = deletes
        older = row is not None and row < order
        if order[1]:
            return Plan("delete" if older else "", order, None, False)
        return Plan("insert" if row is None else "update" if older else "", order, None, False)

    def _work_step(self, state: State, work: Merge | Landing) -> tuple[str, State, Merge | None]:
        """The next step of something sent to the server: what happens, the state after it, the work if it goes on."""
        w = self.names.index(work.window)
        if isinstance(work, Landing):
            present = state.log[w]
            if (present.number if present else 0) != work.former and "landing fence" not in self.without:
                return "its landing is skipped", state, None
            return "lands", state._replace(log=_put(state.log, w, work.landed)), None
        fenced = "fence" not in self.without
        if not work.begun:
            if fenced and state.fences[w] >= work.number:
                return "its MERGE is skipped", state, None
            return "its MERGE begins", state, work._replace(begun=True, row=state.row)
        if work.stale:
            return "its MERGE conflicts", state, None
        row = self._applied(work.plan, work.row) if work.plan.action else state.row

        def outdated(other: Merge | Landing | None) -> Merge | Landing | None:
            if not isinstance(other, Merge) or not other.begun:
                return other
            moved = fenced and other.window == work.window
            changed = row != state.row and bool(other.plan.action)
            return other._replace(stale=other.stale or moved or changed)

        zombies = (outdated(zombie) for zombie in state.zombies)
        after = state._replace(
            row=row,
            fences=_put(state.fences, w, max(work.number, state.fences[w])),
            runs=tuple(run._replace(work=outdated(run.work)) for run in state.runs),
            zombies=tuple(zombie for zombie in zombies if zombie is not None),
        )
        return "commits", after, None

    def _applied(self, plan: Plan, row: Change | None) -> Change | None:
        if row is None:
            return plan.order if plan.action == "insert" else None
        valid = row == plan.seen if plan.full else plan.order is not None and row < plan.order
        if not plan.action or not (valid or "guard" in self.without):
            return row
        return None if plan.action == "delete" else plan.order


def _put(items: tuple[Any, ...], i: int, item: object) -> tuple[Any, ...]:
    return (*items[:i], item, *items[i + 1 :])


def once(*changes: Change) -> tuple[Content, ...]:
    """A source that never changes again."""
    return (tuple(sorted(changes)),)


CASES = {
    "insert and delete": Case({"A": once(up(5)), "B": once(down(10))}, kills=2),
    "delete and newer insert": Case({"A": once(down(5)), "B": once(up(10))}, kills=2),
    "insert, delete, revive": Case({"A": once(up(5)), "B": once(down(10)), "C": once(up(20))}, kills=0),
    "insert, update, delete": Case({"A": once(up(5)), "B": once(up(7)), "C": once(down(10))}, kills=0),
    "tie of upsert and delete": Case({"A": once(up(9)), "B": once(down(9))}, kills=2),
    "tie of two contents": Case({"A": once(up(9, 1)), "B": once(up(9, 2))}, kills=2),
    "tie of two contents and a delete": Case({"A": once(up(9, 1)), "B": once(up(9, 2)), "C": once(down(8))}, kills=0),
    "several changes in each": Case({"A": once(up(1), down(9)), "B": once(up(5), up(12))}, kills=1),
    "update withdrawn": Case({"A": ((up(5),), (up(3),)), "B": once(up(4))}),
    "row gone": Case({"A": ((up(5),), ()), "B": once(down(4))}),
    "delete withdrawn": Case({"A": ((down(9),), ()), "B": once(up(4))}),
    "gone, then rewritten again": Case({"A": ((up(5),), (), (up(1),)), "B": once(up(4))}),
    "rewritten and back": Case({"A": ((up(5),), (up(6),), (up(5),)), "B": once(up(4))}),
    "both rewritten": Case({"A": ((up(5),), (down(6),)), "B": ((up(4),), (up(7),))}, kills=0),
    "same sequence, corrected content": Case({"A": ((up(5, 2),), (up(5, 1),)), "B": once(up(4))}),
    "replayed": Case({"A": once(up(5)), "B": once(down(10))}, replays=1),
    "fix of a replay killed": Case({"A": once(up(5)), "B": ((down(10),), ())}, replays=1),
    "two runs of one window": Case({"A": ((up(5),), ())}, kills=1, twice=("A",)),
}

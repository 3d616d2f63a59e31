"""Brute-force model of the load protocol: every interleaving of a few loads of one key, with kills.

A step is one read or one commit of a load: *start* (Dagster's checkpoint, the source's position,
the window record), *land* (the fenced replacement of the window in the log) or, if the log already has what the
source holds but the checkpoint is not trusted, *fence* (a commit of nothing but the fence of the window's landings),
*table* and *log* (the two reads a plan is made from), *begin* and *commit* of the MERGE. A run may be killed at any
point; what it had sent to the server, a landing, a fence or a MERGE, lives on as a zombie that may go on at any later
moment, and the run is started again.

Whenever every window is checkpointed, no run is under way, and none was killed that some window does not know of, the
log has to hold what the source holds, and the table its fold. Loads of several windows at once, snapshots and
compaction build on this; see the modules beside.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.model.exploration import WRONG, Machine, put
from tests.model.terms import (
    LOST,
    NOTHING,
    UNKNOWN,
    Case,
    Change,
    Checkpoint,
    Content,
    Landed,
    Landing,
    LandingFence,
    Lost,
    Merge,
    Plan,
    Run,
    State,
    Work,
    beside,
    down,
    each_work,
    fold,
    is_beside,
    newest,
    once,
    up,
)

MAX_MERGES = 8
SWITCHES = {
    "fence": "a MERGE is skipped or conflicts if its window's fence has moved",
    "reconcile": "after a MERGE the table is read again, then the log, and what differs is repaired",
    "guard": "a MERGE validates order (fast) or compares and swaps (full) on its own snapshot",
    "landing fence": "a landing is skipped if its window has been landed since it was prepared",
    "markers": "a key that had a row taken away from its window is folded in full, unless its window has a newer one",
    "newer": "what spares a key the full fold is newer than what was taken away",
    "carried markers": "markers of a landing that is not known to be reconciled are kept by the next",
    "distrust": "a checkpoint is trusted only if no other run of its window failed since its own began, or is running",
    "proof": "a load of what is checkpointed compares nothing if nobody has touched row and window since their proof",
    "carried proof": "a load of a window that gained changes of other keys compares only these, if nobody has touched"
    " row and window since their proof",
    "carried plan": "that is so after a MERGE only if the MERGE was planned for these alone",
    "bare landing fence": "without a trusted checkpoint the landing fence of an unchanged window is moved, which"
    " outdates landings that a killed run left behind",
}
"""The parts of the protocol; each can be switched off, and then some case goes wrong."""
PROOFS = frozenset({"proof", "carried proof", "carried plan"})
"""Parts without which only a table that somebody has edited by hand goes wrong."""


class Model(Machine[State]):
    """The protocol on one case.

    Args:
        case: What to explore.
        without: Parts of the protocol to switch off, names of ``switches``.
    """

    switches = SWITCHES

    def __init__(self, case: Case, without: frozenset[str] = frozenset()) -> None:
        assert without <= self.switches.keys(), without
        self.case, self.without = case, without
        self.names = tuple(case.windows)

    def start(self) -> State:
        """Nothing is loaded."""
        runs = tuple(Run(asked) for asked in self.case.runs or ((name,) for name in self.names))
        n = len(self.names)
        return State(
            (0,) * n, (None,) * n, (0,) * (n + 1), None, ((0, 0),) * (n + 1), (Checkpoint(),) * n, runs, (),
            self.case.kills, self.case.replays, edits=self.case.edits,
        )  # fmt: skip

    def canonical(self, state: State) -> State:
        """What is on the server but can no longer commit is alike; so are two runs of one window, and two zombies."""
        if any(self._lost(state, zombie) for zombie in state.zombies):
            state = state._replace(zombies=tuple(z for z in state.zombies if not self._lost(state, z)))
        if any(run.work is not None and self._lost(state, run.work) for run in state.runs):
            state = state._replace(
                runs=tuple(
                    run._replace(work=LOST) if run.work is not None and self._lost(state, run.work) else run
                    for run in state.runs
                )
            )
        if len({run.asked for run in state.runs}) < len(state.runs):
            state = state._replace(runs=tuple(sorted(state.runs, key=hash)))
        if len(state.zombies) > 1:
            state = state._replace(zombies=tuple(sorted(state.zombies, key=hash)))
        return state

    def _lost(self, state: State, work: Work) -> bool:
        """Whether something sent to the server cannot commit any more: fences never move back."""
        if isinstance(work, Landing):
            moved = state.landings[self.names.index(work.window)] >= work.landed.number
            return moved and "landing fence" not in self.without
        if isinstance(work, LandingFence):
            return state.landings[self.names.index(work.window)] > work.number
        if isinstance(work, Merge):
            moved = state.fences[self._place(work.fence)] >= work.number
            return work.stale or (moved and not work.begun and self._fenced(work.fence))
        return isinstance(work, Lost)

    def rests(self, state: State) -> bool:
        """Everything at the source is checkpointed, nothing is under way, no window has to be loaded again."""
        if state.zombies or any(run.active for run in state.runs):
            return False
        if any(not self._settled(state, w) for w in range(len(self.names))):
            return False
        return all(run.at == "idle" or self._forgotten(state, run) for run in state.runs)

    def _settled(self, state: State, w: int) -> bool:
        return state.checkpoints[w].content == self._now(state)[w]

    def _forgotten(self, state: State, run: Run) -> bool:
        """Whether a run was killed, but others have done since what it was to do."""
        return all(state.checkpoints[self.names.index(window)].clean for window in run.asked)

    def problem(self, state: State) -> str | None:
        """Log, table and source have to agree, once a window proven before an edit by hand was loaded again."""
        if state.edited is not None:
            return None
        now = self._now(state)
        held = tuple(landed.content if landed else () for landed in state.log)
        if held != now:
            return f"{WRONG}the log holds {held}, the source {now}"
        wanted = self._wanted(state)
        return None if state.row == wanted else f"{WRONG}the table holds {state.row}, the fold is {wanted}"

    def _wanted(self, state: State) -> Change | None:
        return fold(self._now(state))

    def _now(self, state: State) -> tuple[Content, ...]:
        return tuple(self.case.windows[name][at] for name, at in zip(self.names, state.source, strict=True))

    # steps

    def steps(self, state: State) -> Iterator[tuple[str, State | None]]:
        """Source, runs, kills, zombies."""
        for i, name in enumerate(self.names):
            if state.source[i] + 1 < len(self.case.windows[name]) and self._noticed(state, i):
                yield f"source {name} is rewritten", state._replace(source=put(state.source, i, state.source[i] + 1))
        if state.edits and state.row is not None:
            proven = tuple(n for n, known in zip(self.names, state.checkpoints, strict=True) if known.proof)
            changed = each_work(state, partial(_outdated, moved=False, changed=True))
            yield "the row is deleted by hand", changed._replace(row=None, edits=state.edits - 1, edited=proven)
        for i, run in enumerate(state.runs):
            label = f"run {i} of {'+'.join(run.asked)}: "
            for what, after in self._run_steps(state, i, run):
                yield label + what, after
            if state.kills and run.active:
                yield label + "killed", self._killed(state, i, run)
        for i, zombie in enumerate(state.zombies):
            what, after, left = self._work_step(state, zombie)
            zombies = after.zombies[:i] + (() if left is None else (left,)) + after.zombies[i + 1 :]
            yield f"zombie {type(zombie).__name__.lower()} {zombie[0]}: {what}", after._replace(zombies=zombies)

    def _noticed(self, state: State, w: int) -> bool:
        """Whether anyone has looked at the window: what it held before that does not matter."""
        name = self.names[w]
        return state.log[w] is not None or bool(state.zombies) or any(name in run.pending for run in state.runs)

    def _killed(self, state: State, i: int, run: Run) -> State:
        zombies = state.zombies if run.work is None else (*state.zombies, run.work)
        runs = tuple(
            other._replace(overlapped=True) if other.active and set(other.pending) & set(run.pending) else other
            for other in state.runs
        )
        checkpoints = tuple(
            known._replace(clean=False, failed=True) if name in run.pending else known
            for name, known in zip(self.names, state.checkpoints, strict=True)
        )
        return state._replace(
            runs=put(runs, i, Run(run.asked, "killed")), zombies=zombies, checkpoints=checkpoints, kills=state.kills - 1
        )

    def _run_steps(self, state: State, i: int, run: Run) -> Iterator[tuple[str, State | None]]:
        if run.at in ("idle", "killed"):
            due = [name for name in run.asked if not self._settled(state, self.names.index(name))]
            if run.at == "killed" or due:
                yield "starts", self._begin(state, i, run.asked if run.at == "killed" else tuple(due))
            elif state.replays:
                yield "starts again", self._begin(state, i, run.asked)._replace(replays=state.replays - 1)
        elif run.at == "next":
            yield f"goes on to {run.window}", self._begin_window(state, i)
        elif run.at == "detect":
            yield "looks at the source", self._detect(state, i)
        elif run.at == "table":
            yield "reads the table", self._to(state, i, at="log", row=state.row, fence=state.fences[self._fence(run)])
        elif run.at == "log":
            yield self._decide(state, i, run)
        else:
            assert run.work is not None, run
            what, after, left = self._work_step(state, run.work)
            if left is not None:
                yield what, self._to(after, i, work=left)
            else:
                yield what, self._went(self._to(after, i, work=None), i, what)

    @staticmethod
    def _to(state: State, i: int, **changed: Any) -> State:
        return state._replace(runs=put(state.runs, i, state.runs[i]._replace(**changed)))

    def _fence(self, run: Run) -> int:
        return self.names.index(run.window)

    def _went(self, state: State, i: int, what: str) -> State:
        """A run after the end of what it had sent to the server."""
        run = state.runs[i]
        if run.at == "land":
            return self._to(state, i, at="detect", landed=run.landed or what == "lands")
        if run.at == "fence":
            moved = what in ("moves the fence", "is there")
            return self._to(state, i, at="detect", fenced=True) if moved else self._fences(state, i)
        if what == "commits" and "reconcile" in self.without:
            return self._finished(state, i)
        return self._to(state, i, at="table", committed=run.committed or what == "commits")

    def _begin(self, state: State, i: int, windows: tuple[str, ...]) -> State:
        """A run starts."""
        state = state._replace(runs=put(state.runs, i, Run(state.runs[i].asked, "next", windows)))
        return self._begin_window(state, i)

    def _begin_window(self, state: State, i: int) -> State:
        """A run turns to its next window."""
        window = state.runs[i].window
        known, repairs = state.checkpoints[self.names.index(window)].content, window in (state.edited or ())
        trusted = self._trusted(state, i)
        return self._detect(
            self._to(state, i, trusted=trusted, known=known, full=False, carried=False, repairs=repairs), i
        )

    def _trusted(self, state: State, i: int) -> Content | None:
        window = state.runs[i].window
        others = any(j != i and window in other.pending for j, other in enumerate(state.runs))
        known = state.checkpoints[self.names.index(window)]
        return known.content if (known.clean and not others) or "distrust" in self.without else None

    def _detect(self, state: State, i: int) -> State:
        run = state.runs[i]
        w = self.names.index(run.window)
        position, before = self._now(state)[w], state.log[w]
        landed = Landed(1, position, position, False)
        if before is not None and before.fingerprint == position:
            if run.trusted == position or run.landed or run.fenced or "bare landing fence" in self.without:
                return self._to(state, i, at="table")
            return self._fences(state, i)
        if before is not None:
            settled = (run.trusted == before.fingerprint and not run.landed) or "carried markers" in self.without
            gone, newer = newest(tuple(set(before.content) - set(position))), newest(position)
            spared = newer is not None and (gone is None or gone < newer or "newer" in self.without)
            taken = gone is not None and not spared and "markers" not in self.without
            landed = landed._replace(marked=taken or (before.marked and not settled))
        number = max(before.number if before else 0, state.landings[w]) + 1
        return self._to(state, i, at="land", work=Landing(run.window, landed._replace(number=number)))

    def _fences(self, state: State, i: int) -> State:
        window = state.runs[i].window
        work = LandingFence(window, state.landings[self.names.index(window)] + 1)
        return self._to(state, i, at="fence", work=work)

    def _decide(self, state: State, i: int, run: Run) -> tuple[str, State | None]:
        w = self.names.index(run.window)
        mine = state.log[w]
        assert mine is not None
        least = (self._least(mine), 0)
        merged = run.committed and run.fence > least
        quiet = run.trusted == mine.fingerprint and not run.landed
        proof = state.checkpoints[w].proof
        if quiet and not run.committed and proof and ("proof" in self.without or proof == (run.row, mine)):
            return "reads the log, nobody has touched what was proven, checkpoints", self._finished(state, i)
        carried = not run.full and self._carries(state, run, mine)
        if carried and merged and (run.carried or "carried plan" in self.without):
            return "reads the log, the rest was proven, checkpoints", self._finished(state, i)
        carried = carried and not merged
        state = self._to(state, i, carried=carried)
        again = not run.landed or run.known == mine.fingerprint
        plan = NOTHING if carried else self._plan(state, (w,), run.row, full=run.full or again)
        if merged or quiet:
            if not plan.action:
                return "reads the log, all is well, checkpoints", self._finished(state, i)
            plan = self._plan(state, (w,), run.row, full=True)
            state = self._to(state, i, full=True)
        number = max(least, run.fence)
        return self._sends(state, i, Merge(run.window, plan, (number[0], number[1] + 1)))

    def _carries(self, state: State, run: Run, mine: Landed) -> bool:
        """True if a window has gained only changes of other keys since its proof, and the proof holds for this key."""
        proof = state.checkpoints[self.names.index(run.window)].proof
        if proof is None or run.trusted is None or mine.marked:
            return False
        return self._grown(proof[1], mine) and (proof[0] == run.row or "carried proof" in self.without)

    @staticmethod
    def _grown(before: Landed, mine: Landed) -> bool:
        """True if a landing has what the one before it had, and changes of other keys."""
        more = set(mine.content) - set(before.content)
        return bool(more) and set(before.content) <= set(mine.content) and all(map(is_beside, more))

    def _least(self, mine: Landed) -> int:
        """The number of a landing is part of the fence of its MERGEs."""
        return mine.number

    def _sends(self, state: State, i: int, merge: Merge) -> tuple[str, State | None]:
        if not merge.plan.action or merge.plan == UNKNOWN:
            merge = merge._replace(plan=NOTHING)
        if merge.number[1] > MAX_MERGES:
            return f"{WRONG}{MAX_MERGES} merges and still not reconciled", None
        return f"reads the log, plans {merge.plan}", self._to(state, i, at="merge", work=merge, row=None, fence=(0, 0))

    def _finished(self, state: State, i: int) -> State:
        """The present window is checkpointed."""
        mine = state.log[self.names.index(state.runs[i].window)]
        assert mine is not None
        return self._checkpointed(state, i, mine.fingerprint)

    def _checkpointed(self, state: State, i: int, content: Content) -> State:
        run = state.runs[i]
        w = self.names.index(run.window)
        rest = run.pending[1:]
        # what remains is remembered of the run: that it began before others were killed
        after = Run(run.asked, "next", rest, overlapped=run.overlapped) if rest else Run(run.asked)
        mine = state.log[w]
        known = Checkpoint(content, not run.overlapped, proof=(run.row, mine) if mine and self.case.proofs else None)
        compares = not run.landed or self._finds_gaps(state, w)
        return state._replace(
            runs=put(state.runs, i, after),
            checkpoints=put(state.checkpoints, w, known),
            edited=None if run.repairs and compares else state.edited,
        )

    def _finds_gaps(self, state: State, w: int) -> bool:
        """True if the load of a grown window finds a row that is gone: the window has the newest change of its key."""
        mine, proof = state.log[w], state.checkpoints[w].proof
        if mine is None or proof is None or not self._grown(proof[1], mine):
            return False
        return newest(mine.content) == newest(tuple(change for each in state.log if each for change in each.content))

    def _plan(self, state: State, windows: tuple[int, ...], row: Change | None, *, full: bool) -> Plan:
        here = [landed for w in windows if (landed := state.log[w])]
        mine = newest(tuple(change for landed in here for change in landed.content))
        everything = tuple(change for landed in state.log if landed for change in landed.content)
        if full or any(landed.marked for landed in here):
            return full_plan(newest(everything), row)
        if mine is None:  # the key does not concern these windows
            return NOTHING
        deletes = newest(tuple(change for change in everything if change[1]))
        order = mine if deletes is None else max(mine, deletes)
        older = row is not None and row < order
        if order[1]:
            return Plan("delete" if older else "", order, None, False)
        if row is not None and row > order and row[0] == order[0]:
            return UNKNOWN
        return Plan("insert" if row is None else "update" if older else "", order, None, False)

    # what happens on the server

    def _work_step(self, state: State, work: Work) -> tuple[str, State, Work | None]:
        """The next step of something sent to the server: what happens, the state after it, the work if it goes on."""
        if isinstance(work, Lost):
            return "is refused", state, None
        if isinstance(work, Landing):
            return *self._land(state, work), None
        if isinstance(work, LandingFence):
            return *self._fence_landings(state, work), None
        assert isinstance(work, Merge)
        return self._merge(state, work)

    def _land(self, state: State, work: Landing) -> tuple[str, State]:
        w = self.names.index(work.window)
        if state.landings[w] >= work.landed.number and "landing fence" not in self.without:
            return "its landing is skipped", state
        landings = put(state.landings, w, max(work.landed.number, state.landings[w]))
        return "lands", state._replace(log=put(state.log, w, work.landed), landings=landings)

    def _fence_landings(self, state: State, work: LandingFence) -> tuple[str, State]:
        w = self.names.index(work.window)
        if (there := state.landings[w]) >= work.number:
            return "is there" if there == work.number else "is overtaken", state
        return "moves the fence", state._replace(landings=put(state.landings, w, work.number))

    def _merge(self, state: State, work: Merge) -> tuple[str, State, Work | None]:
        place = self._place(work.fence)
        fenced = self._fenced(work.fence)
        if not work.begun:
            if fenced and state.fences[place] >= work.number:
                return "its MERGE is skipped", state, None
            return "its MERGE begins", state, work._replace(begun=True, row=state.row if work.plan.action else None)
        if work.stale:
            return "its MERGE conflicts", state, None
        row = self._applied(work.plan, work.row) if work.plan.action else state.row

        def outdated(other: Work) -> Work:
            moved = isinstance(other, Merge) and fenced and self._place(other.fence) == place
            return _outdated(other, moved=moved, changed=row != state.row)

        after = each_work(state, outdated)
        return "commits", after._replace(
            row=row, fences=put(state.fences, place, max(work.number, state.fences[place]))
        ), None  # fmt: skip

    def _place(self, fence: str) -> int:
        """Where a fence is among the fences; the last place is for one that is not of a window."""
        return self.names.index(fence) if fence in self.names else len(self.names)

    def _fenced(self, fence: str) -> bool:
        return "fence" not in self.without

    def _applied(self, plan: Plan, row: Change | None) -> Change | None:
        if row is None:
            return plan.order if plan.action == "insert" else None
        valid = row == plan.seen if plan.full else plan.order is not None and row < plan.order
        if not plan.action or not (valid or "guard" in self.without):
            return row
        return None if plan.action == "delete" else plan.order


def _outdated(work: Work, *, moved: bool, changed: bool) -> Work:
    """What is under way after its fence has moved, or the row was changed, which a MERGE that has begun notices."""
    if not isinstance(work, Merge) or not work.begun:
        return work
    return work._replace(stale=work.stale or moved or (changed and bool(work.plan.action)))


def full_plan(order: Change | None, row: Change | None) -> Plan:
    """The plan that makes the row what the deciding change says, whatever it is now."""
    if order is None or order[1]:
        return Plan("" if row is None else "delete", order, row, True)
    return Plan("insert" if row is None else "update" if row != order else "", order, row, True)


CASES = {
    "insert and delete": Case({"A": once(up(5)), "B": once(down(10))}, kills=2),
    "delete and newer insert": Case({"A": once(down(5)), "B": once(up(10))}, kills=2),
    "insert, delete, revive": Case({"A": once(up(5)), "B": once(down(10)), "C": once(up(20))}, kills=0),
    "insert, delete, revive, one of them killed": Case({"A": once(up(5)), "B": once(down(10)), "C": once(up(20))}),
    "insert, update, delete": Case({"A": once(up(5)), "B": once(up(7)), "C": once(down(10))}, kills=0),
    "tie of upsert and delete": Case({"A": once(up(9)), "B": once(down(9))}, kills=1),
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
    "edited by hand": Case({"A": once(up(5)), "B": once(up(4))}, kills=1, replays=1, edits=1),
    "grown and edited by hand": Case({"A": ((up(5),), (beside(1), up(5))), "B": once(up(4))}, kills=1, edits=1),
    "grown beside another": Case({"A": ((up(5),), (beside(1), up(5))), "B": ((up(7),), (down(6),))}, kills=1, edits=1),
    "two runs of one window": Case({"A": ((up(5),), ())}, kills=1, runs=(("A",), ("A",))),
}

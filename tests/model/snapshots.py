"""Snapshots: each window holds all there is, the table is what the newest landed window holds.

Windows are in the order in which a case names them. A plan is always made in full: the key is what the newest landed
window says, and deleted if it says nothing. Rows do not hold the window they are of.
"""

from tests.model.protocol import SWITCHES, Model, full_plan
from tests.model.terms import Case, Change, Landed, Plan, Run, State, newest, once, up

SNAPSHOT_SWITCHES = {
    "scope fence": "all windows share one fence, so that a MERGE planned before a newer window's is refused after it",
}
NEEDLESS = frozenset({"reconcile", "guard", "markers", "newer", "carried markers"})
"""Parts of the protocol that snapshots do without: plans are made in full, and the fence refuses all that is stale."""


class SnapshotModel(Model):
    """The protocol for a table of snapshots.

    Without the scope's fence each window has its own, as elsewhere: the table still ends up right, but a forgotten
    MERGE of an older window may be seen until that window has been loaded again.
    """

    switches = SWITCHES | SNAPSHOT_SWITCHES

    def _wanted(self, state: State) -> Change | None:
        return newest(self._now(state)[-1])

    def _plan(self, state: State, windows: tuple[int, ...], row: Change | None, *, full: bool) -> Plan:
        last = next(landed for landed in reversed(state.log) if landed)
        return full_plan(newest(last.content), row)

    def exposed(self, state: State) -> bool:
        """The newest landed window is checkpointed as the source is, and nobody is at it, but the table differs."""
        w = max((w for w, landed in enumerate(state.log) if landed), default=None)
        if w is None or state.checkpoints[w].content != self._now(state)[w]:
            return False
        last = state.log[w]
        assert last is not None
        busy = any(
            self.names[w] in run.pending or (run.at == "killed" and self.names[w] in run.asked) for run in state.runs
        )
        return not busy and last.content == self._now(state)[w] and state.row != newest(last.content)

    def _place(self, fence: str) -> int:
        return super()._place(fence) if "scope fence" in self.without else len(self.names)

    def _fence(self, run: Run) -> int:
        return self._place(run.window)

    def _least(self, mine: Landed) -> int:
        return super()._least(mine) if "scope fence" in self.without else 0


SNAPSHOT_CASES = {
    "two snapshots": Case({"A": once(up(1)), "B": once(up(2))}, kills=2),
    "key gone in the second": Case({"A": once(up(1)), "B": once()}, kills=2),
    "key only in the second": Case({"A": once(), "B": once(up(1))}, kills=1),
    "there, gone, there again": Case({"A": once(up(1)), "B": once(), "C": once(up(1))}, kills=0),
    "the same again after another": Case({"A": once(up(1)), "B": once(up(2)), "C": once(up(1))}, kills=0),
    "newest rewritten": Case({"A": once(up(1)), "B": ((up(2),), ())}),
    "newest rewritten to what the older holds": Case({"A": once(up(1)), "B": ((), (up(1),))}),
    "older rewritten": Case({"A": ((up(1),), (up(3),)), "B": once(up(2))}),
    "rewritten and back": Case({"A": once(up(1)), "B": ((up(2),), (), (up(2),))}),
    "replayed": Case({"A": once(up(1)), "B": once()}, replays=1),
    "fix of a replay killed": Case({"A": once(up(1)), "B": ((up(2),), ())}, replays=1),
    "two runs of one window": Case({"A": ((up(1),), ())}, runs=(("A",), ("A",))),
}

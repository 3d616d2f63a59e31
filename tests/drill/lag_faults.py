"""Two ways to fall behind a source, made for real: a burst of change events, and a slow consumer.

Both are noticed by the time that the oldest change has been waiting, and both end when the table equals what all events
say.
"""

from tests.drill.faults import Fault
from tests.drill.scratch import USUAL, LagScratch

BURST = 20_000
"""The number of events of a window in a burst."""
_BURST, _BEHIND = slice(3, 6), slice(6, 9)
"""The windows of the burst, and those of the slow consumer; the first three are loaded before."""


def _load(stream: LagScratch, *windows: str) -> None:
    if not stream.load_together(*windows):
        raise AssertionError(f"{windows[0]}..{windows[-1]} could not be loaded")


def _burst(stream: LagScratch) -> None:
    for window in stream.windows[_BURST]:
        stream.change(window, BURST)


def _hang(stream: LagScratch) -> None:
    behind = stream.windows[_BEHIND]
    for window in behind:
        stream.change(window, USUAL)
    stream.hang(behind[0])
    stream.wait_for_slot(behind[1])


def _go_on(stream: LagScratch) -> None:
    stream.free_slot()
    _load(stream, *stream.windows[_BEHIND])


LAG_FAULTS: tuple[Fault[LagScratch], ...] = (
    Fault(
        mode="F1",
        runbook="lag",
        about=f"{BURST // USUAL} times the usual number of change events arrives in three windows",
        alerts=("IncloadNewsWaiting",),
        inject=_burst,
        remedy=lambda stream: _load(stream, *stream.windows[_BURST]),
        is_there=lambda stream: not stream.is_right(),
        backlog=lambda stream: stream.backlog(*stream.windows[_BURST]),
    ),
    Fault(
        mode="F1",
        runbook="lag",
        about="a run hangs with the slot of the table's pool, while windows arrive",
        alerts=("IncloadNewsWaiting",),
        inject=_hang,
        remedy=_go_on,
        is_there=lambda stream: not stream.is_right(),
    ),
)
"""What is done, in its order."""

"""Two ways to fall behind a source, made for real: a burst of change events, and a slow consumer.

Both are noticed by the time that the oldest change has been waiting, and both end when the table equals what all events
say. What they work on is a :class:`Stream`: a scratch table of Debezium's events.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from incload_assets.monitoring.drill.faults import Fault

PROMISED = timedelta(seconds=10)
"""The time within which the scratch table promises changes."""
USUAL, BURST = 100, 20_000
"""The number of events of a window: usually, and in a burst."""
_LOADED, _BURST, _BEHIND = slice(0, 3), slice(3, 6), slice(6, 9)
"""The windows that are loaded before, those of the burst, and those of the slow consumer."""


class Stream(Protocol):
    """A table of change events that lags behind its source.

    It promises changes within ``PROMISED``. One of its runs loads at a time, because its pool has one slot. None of
    its windows is loaded.
    """

    @property
    def windows(self) -> Sequence[str]:
        """The partition keys of nine windows that are over, oldest first."""

    def change(self, window: str, number: int) -> None:
        """Changes rows of the database; the events are a file of a window."""

    def backlog(self, *windows: str) -> int:
        """The number of events of windows."""

    def load_together(self, *windows: str) -> bool:
        """Loads adjacent windows in one run; whether all were loaded."""

    def hang(self, window: str) -> None:
        """Starts a run that loads a window, takes the pool's slot, and then hangs."""

    def wait_for_slot(self, window: str) -> None:
        """Starts a run that loads a window and has to wait for the pool's slot."""

    def free_slot(self) -> None:
        """Ends the process that holds the pool's slot, and fails its run; returns when the waiting run has ended."""

    def is_right(self) -> bool:
        """True if the table's rows are the database's."""


def prepare(stream: Stream) -> None:
    """Loads windows with the usual number of events.

    Raises:
        AssertionError: They cannot be loaded.
    """
    for window in stream.windows[_LOADED]:
        stream.change(window, USUAL)
    _load(stream, *stream.windows[_LOADED])


def _load(stream: Stream, *windows: str) -> None:
    if not stream.load_together(*windows):
        raise AssertionError(f"{windows[0]}..{windows[-1]} could not be loaded")


def _burst(stream: Stream) -> None:
    for window in stream.windows[_BURST]:
        stream.change(window, BURST)


def _hang(stream: Stream) -> None:
    behind = stream.windows[_BEHIND]
    for window in behind:
        stream.change(window, USUAL)
    stream.hang(behind[0])
    stream.wait_for_slot(behind[1])


def _go_on(stream: Stream) -> None:
    stream.free_slot()
    _load(stream, *stream.windows[_BEHIND])


LAG_FAULTS: tuple[Fault[Stream], ...] = (
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

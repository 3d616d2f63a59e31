"""Threads that do things which may hang: as many as hang, and those at work, and none that keeps its process alive."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread

Work = Callable[[], None]


class Workers:
    """Threads by name; each takes the next piece of work when it is done with one. Work raises nothing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Work] = SimpleQueue()
        self._idle, self._lock = 0, Lock()

    def do(self, work: Work) -> None:
        """Does something at once, by a thread that is idle, or else by a new one."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                Thread(target=self._run, name=self._name, daemon=True).start()
        self._work.put(work)

    def _run(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._idle += 1

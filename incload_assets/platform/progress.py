"""Progress messages of long steps, passed to whoever shows them.

Jars are fetched and servers are started deep inside the code that first needs them, while only the command line can
show progress to a person.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_shown_by: list[Callable[[str], None]] = []


def tell(what: str) -> None:
    """Reports the current step in one line, which replaces the previous line. Does nothing if nobody shows it.

    Args:
        what: The line; empty when the step is over.

    Example:
        >>> with shown_by(print):
        ...     tell("Spark is starting, 3 s")
        Spark is starting, 3 s
    """
    for show in _shown_by:
        show(what)


@contextmanager
def shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Shows the progress messages of a block.

    Args:
        show: Called with each line, at most several times a second, by the working thread.
    """
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.remove(show)

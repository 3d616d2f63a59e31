"""What takes long, told while it goes on, to whoever shows it.

Jars are fetched and servers started deep inside whatever needs them first; only a command line knows whether somebody
is watching.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_shown_by: list[Callable[[str], None]] = []


def tell(what: str) -> None:
    """Say what is under way, in one line that replaces the one before; without anybody to show it, to nobody.

    Args:
        what: The line; empty when it is over.

    Example:
        >>> with shown_by(print):
        ...     tell("Spark is starting, 3 s")
        Spark is starting, 3 s
    """
    for show in _shown_by:
        show(what)


@contextmanager
def shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Have what is told in the block shown.

    Args:
        show: Called with each line, several times a second at most, by the thread that does the work.
    """
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.remove(show)

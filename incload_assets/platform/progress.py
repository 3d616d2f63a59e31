"""Progress messages of long steps: reported deep inside the code that starts servers, shown by the command line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_shown_by: list[Callable[[str], None]] = []


def tell(what: str) -> None:
    """Reports the current step in one line, which replaces the previous one; an empty line when the step is over."""
    for show in _shown_by:
        show(what)


@contextmanager
def shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Passes each progress line of a block to ``show``, at most several times a second, in the working thread."""
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.remove(show)

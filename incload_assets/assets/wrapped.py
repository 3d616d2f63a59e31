"""A mark for the time in which tables are loaded by something that makes the checks, sensors and jobs they share."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_wrapped: ContextVar[bool] = ContextVar("wrapped", default=False)


@contextmanager
def wrapping() -> Iterator[None]:
    """The time in which a project loads its tables, to make what all of them share."""
    token = _wrapped.set(True)
    try:
        yield
    finally:
        _wrapped.reset(token)


def is_wrapped() -> bool:
    """True if the tables that are loaded now get their checks, sensors and jobs."""
    return _wrapped.get()

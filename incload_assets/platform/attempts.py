"""A bounded number of attempts at something that another writer may come before."""

from collections.abc import Callable
from typing import TypeVar

from incload_assets.platform.errors import IncrementalLoadError

T = TypeVar("T")


def in_attempts(most: int, attempt: Callable[[], T | None], lost: IncrementalLoadError) -> T:
    """The result of the first attempt that succeeds.

    Args:
        most: The number of attempts.
        attempt: Makes one; None if another writer came first, so that it has to be made again.
        lost: The error after the last attempt.

    Raises:
        IncrementalLoadError: All attempts have failed.

    Example:
        >>> left = [3, None]
        >>> in_attempts(2, left.pop, IncrementalLoadError("others came first"))
        3
    """
    for _ in range(most):
        if (done := attempt()) is not None:
            return done
    raise lost

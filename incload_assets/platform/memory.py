"""The memory of processes that handle many tables: when it is searched for garbage, and that it is given back."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa


@contextmanager
def unsearched(*, stays: bool = False) -> Iterator[None]:
    """A block that makes many objects, during which Python does not search for garbage in cycles.

    It goes through all objects again and again while many are made. The definitions of a thousand tables are a million
    objects, for which it takes a fifth of the time.

    Args:
        stays: Whether the objects stay as long as the process, so that later searches pass them over, too.
    """
    was_searched = gc.isenabled()
    gc.disable()
    try:
        yield
        if stays:
            gc.freeze()
    finally:
        if was_searched:
            gc.enable()


def give_back() -> None:
    """Has pyarrow give memory back to the system, which its default keeps: the rows of all loads take half a GB."""
    with suppress(NotImplementedError):  # not every build of pyarrow has this allocator
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(0)

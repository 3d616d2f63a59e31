"""A load in a process of its own, which can be killed at a chosen point.

    python -m tests.integration.loader FOLDER DAY [POINT] [BARRIER]

FOLDER holds ``content.json``. POINT is where the process kills itself with SIGKILL: ``landing`` (before the landing
commits), ``landed`` (after it), ``merging`` (a moment after the MERGE was sent), ``merged`` (after its commit, before
the reconciliation). BARRIER is a file to wait for before the load begins.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from incload_assets.loading import landing, load
from incload_assets.loading.writes import merge
from tests.loading.tables import make

MERGE_RUNS_SECONDS = 0.4


def die() -> None:
    """End at once, as a machine that loses power."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(action: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with something done first."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        action()
        return function(*args, **kwargs)

    return wrapped


def after(action: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with something done next."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        action()
        return result

    return wrapped


def main(folder: str, day: str, point: str = "", barrier: str = "") -> None:
    """Load the day of the content."""
    spark = SparkSession.builder.remote(os.environ["INCLOAD_TEST_REMOTE"]).create()
    table = make(spark, Path(folder), json.loads(Path(folder, "content.json").read_text()))
    if point == "landing":
        landing.commit = before(die, landing.commit)
    elif point == "landed":
        load.land = after(die, load.land)
    elif point == "merging":
        merge.merge = before(threading.Timer(MERGE_RUNS_SECONDS, die).start, merge.merge)
    elif point == "merged":
        merge.merge = after(die, merge.merge)
    Path(folder, f"ready-{os.getpid()}").touch()
    while barrier and not Path(folder, barrier).exists():
        time.sleep(0.01)
    table.load(int(day))


if __name__ == "__main__":
    main(*sys.argv[1:])

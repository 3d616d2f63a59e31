"""A backfill run in a process of its own, which can be killed.

    python -m tests.integration.backfill FOLDER DAGSTER_HOME SPARK START END

START and END are the first and the last partition key.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import dagster as dg

from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import RANGE_END_TAG, RANGE_START_TAG
from tests.support.guest_table import House, house
from tests.support.sampling import NIGHT

FIRST = date(2025, 1, 1)
YEAR = [str(FIRST + timedelta(n)) for n in range(365)]
DAYS = YEAR if NIGHT else YEAR[:100]
"""Those of the tests; the whole year is for the night."""
DAILY = dg.DailyPartitionsDefinition(str(FIRST), end_date=str(FIRST + timedelta(len(YEAR))))


@contextmanager
def dated(folder: Path, home: Path, settings: Settings) -> Iterator[House]:
    """A table of these days, its instance of Dagster outlives the process; INCLOAD_LANDING has to name its files."""
    home.mkdir(exist_ok=True)
    with (
        dg.DagsterInstance.local_temp(str(home)) as instance,
        house(folder, settings, partitions_def=DAILY, instance=instance) as h,
    ):
        yield h


def deliver(folder: Path, day: str, room: int = 1) -> None:
    """The file of a day, with two guests."""
    guests = [{"id": f"{day[5:7]}/{n}", "name": f"{day}/{n}", "room": room, "seq": 1, "day": day} for n in (1, 2)]
    path = folder / "landing" / "guests" / day / "a.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(guest) + "\n" for guest in guests))


def load(h: House, start: str, end: str) -> dg.ExecuteInProcessResult:
    """One run over a day or a range, as a backfill asks for it."""
    if start == end:
        return h.run(h.loads, partition=start)
    return h.run(h.loads, tags={RANGE_START_TAG: start, RANGE_END_TAG: end})


if __name__ == "__main__":
    os.environ["INCLOAD_LANDING"] = str(Path(sys.argv[1], "landing"))
    with dated(Path(sys.argv[1]), Path(sys.argv[2]), Settings(spark=sys.argv[3])) as this:
        load(this, *sys.argv[4:6])

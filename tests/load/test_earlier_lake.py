"""A lake that an earlier version of the code has written goes on loading.

``lake_of_an_earlier_version.tar.gz`` was written at 9184369: days 1 and 2 landed and merged together, day 3 with a
rejected row, day 4 rewritten with a wrong row and undone; then days 1 and 2 were compacted.
"""

import tarfile
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.declaration.table import Quarantine
from incload_assets.load.load import load_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.errors import WindowCompacted, WindowHeld
from incload_assets.progress.checkpoint import Checkpoint
from tests.support.tables import GoodItem, Loaded, day, item, make

LAKE = Path(__file__).with_name("lake_of_an_earlier_version.tar.gz")
HELD = {("2", "B", 2), ("3", "c", 2), ("4", "d", 3), ("6", "f", 4)}
IN_LOG = {
    "items/2026-01-03/landing": 1,
    "items/2026-01-04/landing": 3,
    "items/range 0/landing": 6,
    "items/compaction": 2,
}
IN_TABLE = ("items/2026-01-03", "items/2026-01-04", "items/range 0")


@pytest.fixture
def earlier(spark: SparkSession, tmp_path: Path) -> Loaded:
    with tarfile.open(LAKE) as lake:
        lake.extractall(tmp_path, filter="data")
    content = {
        day(1): [item("1", "a", 1), item("2", "b", 1)],
        day(2): [item("2", "B", 2), item("3", "c", 2)],
        day(3): [item("4", "d", 3), item("5", "bad", 3)],
        day(4): [item("6", "WRONG", 5)],
    }
    quarantine = Quarantine(max_share=0.9)
    return make(spark, tmp_path, content, contract=GoodItem, quarantine=quarantine, log_retention=timedelta(days=1))


def fences(loaded: Loaded, uri: str, names: tuple[str, ...]) -> dict[str, int | None]:
    return {name: loaded.lake.transaction_version(uri, name) for name in names}


def test_a_lake_of_an_earlier_version_is_loaded_undone_and_released(earlier: Loaded) -> None:
    log, window = earlier.context().log.uri, earlier.table.window_of
    assert earlier.rows() == HELD
    assert fences(earlier, log, tuple(IN_LOG)) == IN_LOG
    assert None not in fences(earlier, earlier.uri, IN_TABLE).values()

    same = earlier.load(3)
    assert (same.ingested, earlier.rows()) == (False, HELD)
    [record] = earlier.context().log.records(only=[day(4)]).values()
    with pytest.raises(WindowHeld, match="ada"):
        earlier.load(4, checkpoint=Checkpoint(record.fingerprint, clean=True))
    earlier.content[day(1)] = [item("1", "other", 9)]
    with pytest.raises(WindowCompacted):
        earlier.load(1)

    earlier.content[day(3)].append(item("7", "g", 3))
    earlier.load(3)
    assert earlier.rows() == HELD | {("7", "g", 3)}
    undo_window(earlier.context(), window(day(3)), Undo(actor="bob"))
    assert earlier.rows() == HELD
    load_window(earlier.context(), window(day(4)), if_held="release")
    assert earlier.rows() == HELD - {("6", "f", 4)} | {("1", "a", 1), ("6", "WRONG", 5)}
    now = fences(earlier, log, tuple(IN_LOG))
    assert (now["items/2026-01-03/landing"], now["items/2026-01-04/landing"]) > (1, 3)

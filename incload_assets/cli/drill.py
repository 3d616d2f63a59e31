"""A game day: a scratch table is loaded by the Spark and into the lake that are configured, while things go wrong.

What goes wrong is done for real: loads are processes of their own, of which some are killed or run twice at once. After
each event the table has to be what its files say, which is worked out here from the files alone.

``python -m incload_assets.cli.drill ROOT DAY`` is one load; it says when it begins, so that it can be killed.
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets.incremental import incremental_asset, table_of
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Quarantine, Table
from incload_assets.declaration.window import window_of
from incload_assets.load.load import load_window
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.storage import store_of
from resources.failures import masked
from resources.lake import Lake
from resources.settings import Settings
from resources.spark.resource import open_session

FOLDER = "_game_day"
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
KILLED_AT = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Shares of the time that a load takes."""

_BEGINS = "begins"
_SECONDS = 600.0

Row = tuple[str, str, int]
Rows = dict[str, list[Row]]


class Guest(pa.DataFrameModel):  # type: ignore[type-arg]
    """A row of the scratch table."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)


@dataclass
class GameDay:
    """The scratch table, its files, and what has to be in it.

    Args:
        settings: Say which Spark and where the lake is.
        root: Of the files, and of a lake of its own; gone at the end of a game that is won.
    """

    settings: Settings
    root: str
    _files: dict[str, Rows] = field(default_factory=lambda: {day: {} for day in DAYS})
    _usual: float = 0.0

    @classmethod
    def begin(cls, settings: Settings) -> "GameDay":
        """A game in a folder of its own in the lake."""
        return cls(settings, f"{Lake.of(settings).root}/{FOLDER}/{uuid.uuid4().hex[:8]}")

    @property
    def events(self) -> dict[str, Callable[[], None]]:
        """What happens, in this order; each leaves the table right, or fails."""
        return {
            "three days arrive, and are loaded the last one first": self._arrive,
            "a file is written again, rows come late, one breaks the contract": self._rewrite,
            "two processes load the same day at once": self._twice_at_once,
            **{f"a load is killed at {share:.0%} of its time": partial(self._killed, share) for share in KILLED_AT},
            "everything is loaded again: no data file is written": self._again,
            "the table is restored to its first version": self._restored,
            "the table is removed": self._removed,
        }

    def end(self) -> None:
        """Remove the files and the lake."""
        store_of(self.root).rm(self.root, recursive=True)

    @cached_property
    def table(self) -> Table:
        """The scratch table."""
        return declared(self.root)

    @cached_property
    def lake(self) -> Lake:
        """Its lake."""
        return Lake(f"{self.root}/lake")

    @property
    def uri(self) -> str:
        """Where it is."""
        return self.lake.table_uri(self.table.key.path)

    def require_right(self) -> None:
        """See that the table holds of each key the newest row that keeps the contract.

        Raises:
            AssertionError: It does not; with what is missing and what is too much.
        """
        rows = [row for files in self._files.values() for content in files.values() for row in content if row[1]]
        right = {key: max((row for row in rows if row[0] == key), key=lambda row: row[2]) for key, _, _ in rows}
        found, wanted = self._rows(), sorted(right.values())
        if found != wanted:
            missing, more = sorted({*wanted} - {*found}), sorted({*found} - {*wanted})
            raise AssertionError(f"the table is wrong: missing {missing}, too much {more}, {len(found)} rows")

    def _rows(self) -> list[Row]:
        delta = self.lake.delta(self.uri)
        rows = delta.to_pyarrow_table().to_pylist() if delta else []
        return sorted((row["id"], row["name"], row["seq"]) for row in rows)

    def _deliver(self, day: str, name: str, *rows: Row) -> None:
        """Write a file; a row without name breaks the contract."""
        self._files[day][name] = list(rows)
        lines = [json.dumps({"id": id, "seq": seq, **({"name": who} if who else {})}) for id, who, seq in rows]
        path = f"{self.root}/landing/{day}/{name}.json"
        store = store_of(path)
        store.makedirs(path.rpartition("/")[0], exist_ok=True)
        store.pipe_file(path, "\n".join(lines).encode())

    def _load(self, *days: str) -> None:
        with open_session(self.settings, "game day") as spark:
            self._load_in(spark, *days)

    def _load_in(self, spark: SparkSession, *days: str) -> None:
        for day in days:
            load_window(spark, self.table, self.lake, window_of(self.table.partitions_def, day))

    def _process(self, day: str) -> "subprocess.Popen[str]":
        """A load that has begun."""
        command = [sys.executable, "-m", __name__, self.root, day]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == _BEGINS:
                return process
        raise AssertionError(f"a load of {day} ended with {process.wait()} before it began")

    def _arrive(self) -> None:
        for number, day in enumerate(DAYS):
            self._deliver(day, "a", ("shared", f"of {day}", number), (f"own {day}", "x", 1))
        self._load(*reversed(DAYS))
        self.require_right()

    def _rewrite(self) -> None:
        self._deliver(DAYS[2], "a", (f"own {DAYS[2]}", "written again", 2))  # what was shared is an older day's now
        self._deliver(DAYS[0], "b", ("late", "y", 1), ("broken", "", 1))
        self._load(DAYS[0], DAYS[2])
        self.require_right()

    def _twice_at_once(self) -> None:
        self._deliver(DAYS[1], "b", ("twice", "z", 1))
        processes = [self._process(DAYS[1]) for _ in range(2)]
        began = time.monotonic()
        codes = [process.wait(_SECONDS) for process in processes]
        self._usual = time.monotonic() - began
        if any(codes):
            raise AssertionError(f"the loads ended with {codes}")
        self.require_right()

    def _killed(self, share: float) -> None:
        before = self._rows()
        self._deliver(DAYS[1], "c", ("killed", f"at {share:.0%}", int(100 * share)))
        process = self._process(DAYS[1])
        time.sleep(share * self._usual)
        process.kill()
        process.wait(_SECONDS)
        between = [row for row in self._rows() if row[0] != "killed"]
        if between != [row for row in before if row[0] != "killed"]:
            raise AssertionError("the killed load has left the table half done")
        self._load(DAYS[1])
        self.require_right()

    def _again(self) -> None:
        before = self._data_files()
        self._load(*DAYS)
        if self._data_files() != before:
            raise AssertionError("data files were written for nothing")
        self.require_right()

    def _restored(self) -> None:
        with open_session(self.settings, "game day") as spark:
            spark.sql(f"RESTORE {self.lake.sql_name(self.uri)} TO VERSION AS OF 1").first()
            self._load_in(spark, *DAYS)
        self.require_right()

    def _removed(self) -> None:
        store_of(self.uri).rm(self.uri, recursive=True)
        self._load(*DAYS)
        self.require_right()

    def _data_files(self) -> set[str]:
        delta = self.lake.delta(self.uri)
        return set(delta.file_uris()) if delta else set()


def declared(root: str) -> Table:
    """The scratch table of a game.

    Args:
        root: As of :class:`GameDay`.
    """

    @incremental_asset(
        partitions_def=dg.DailyPartitionsDefinition(DAYS[0]),
        source=Files(f"{root}/landing/{{window:%Y-%m-%d}}/*.json"),
        contract=Guest,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        quarantine=Quarantine(max_share=0.5),
    )
    def guests(changes: DataFrame) -> DataFrame:
        return changes

    table = table_of(guests)
    assert table is not None
    return table


def play(game: GameDay) -> Iterator[tuple[str, float, str | None]]:
    """Let everything happen; what happened, the seconds that it took, and what is wrong, after which the game is over.

    Args:
        game: A new one.

    Example:
        >>> all(wrong is None for _, _, wrong in play(GameDay.begin(Settings())))  # doctest: +SKIP
        True
    """
    for what, happen in game.events.items():
        began, wrong = time.monotonic(), None
        try:
            happen()
        except Exception as error:
            wrong = masked(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        yield what, time.monotonic() - began, wrong
        if wrong:
            return
    game.end()


def _main(root: str, day: str) -> None:
    game = GameDay(Settings(), root)
    with open_session(game.settings, f"game day {day}") as spark:
        print(_BEGINS, flush=True)
        game._load_in(spark, day)


if __name__ == "__main__":
    _main(*sys.argv[1:])

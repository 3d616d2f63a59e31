"""A game day: loads of a scratch table with the configured Spark and lake, while things go wrong.

The failures are real: loads are separate processes, and some are killed or run twice at once. After each event the
table must match its files; the expected rows are computed here from the files alone.

``python -m incload_assets.cli.support.drill ROOT DAY`` is one load; it prints a line when it begins, to be killed.
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
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Quarantine, Table
from incload_assets.declaration.window import window_of
from incload_assets.load.load import load_window
from incload_assets.platform.failures import masked
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.storage import store_of

FOLDER = "_game_day"
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
KILLED_AT = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The times at which loads are killed, as shares of a load's duration."""

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
    """The scratch table, its files, and its expected rows.

    ``root`` has the files and a separate lake; it is removed at the end of a game that is won.
    """

    settings: Settings
    root: str
    _files: dict[str, Rows] = field(default_factory=lambda: {day: {} for day in DAYS})
    _usual: float = 0.0

    @classmethod
    def begin(cls, settings: Settings) -> "GameDay":
        """A new game in its own folder in the lake."""
        lake = Lake.of(settings)
        lake.expect_own("game-day")
        return cls(settings, f"{lake.root}/{FOLDER}/{uuid.uuid4().hex[:8]}")

    @property
    def events(self) -> dict[str, Callable[[], None]]:
        """The events in their order, by description; each leaves the table right, or fails."""
        return {
            "three days arrive, and the last one is loaded first": self._arrive,
            "a file is rewritten, rows come late, one breaks the contract": self._rewrite,
            "two processes load the same day at once": self._twice_at_once,
            **{f"a load is killed at {share:.0%} of its time": partial(self._killed, share) for share in KILLED_AT},
            "everything is loaded again, without writing a data file": self._again,
            "the table is restored to its first version": self._restored,
            "the table is deleted": self._removed,
        }

    def end(self) -> None:
        """Removes the files and the lake."""
        store_of(self.root).rm(self.root, recursive=True)

    @cached_property
    def table(self) -> Table:
        """The scratch table."""
        return declared(self.root)

    @cached_property
    def lake(self) -> Lake:
        """The scratch table's lake."""
        return Lake(f"{self.root}/lake")

    @property
    def uri(self) -> str:
        """The scratch table's URI."""
        return self.lake.table_uri(self.table.key.path)

    def require_right(self) -> None:
        """Fails unless the table holds, for each key, the newest row that satisfies the contract; names wrong rows."""
        rows = [row for files in self._files.values() for content in files.values() for row in content if row[1]]
        right = {key: max((row for row in rows if row[0] == key), key=lambda row: row[2]) for key, _, _ in rows}
        found, wanted = self._rows(), sorted(right.values())
        if found != wanted:
            missing, more = sorted({*wanted} - {*found}), sorted({*found} - {*wanted})
            raise AssertionError(f"the table is wrong: missing {missing}, surplus {more}, {len(found)} rows")

    def _rows(self) -> list[Row]:
        delta = self.lake.delta(self.uri)
        rows = delta.to_pyarrow_table().to_pylist() if delta else []
        return sorted((row["id"], row["name"], row["seq"]) for row in rows)

    def _deliver(self, day: str, name: str, *rows: Row) -> None:
        """Writes a file; a row without a name breaks the contract."""
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
            load_window(LoadContext(spark, self.table, self.lake), window_of(self.table.partitions_def, day))

    def _process(self, day: str) -> "subprocess.Popen[str]":
        """The process of a load that has begun."""
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
        # without the shared key, whose newest row is then an older day's
        self._deliver(DAYS[2], "a", (f"own {DAYS[2]}", "written again", 2))
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
            raise AssertionError("the killed load has left the table half written")
        self._load(DAYS[1])
        self.require_right()

    def _again(self) -> None:
        before = self._data_files()
        self._load(*DAYS)
        if self._data_files() != before:
            raise AssertionError("data files were written although nothing had changed")
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
    """The scratch table of a game; the root is as for :class:`GameDay`."""

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
    """Plays all events, and yields for each its description, its seconds and the error, which ends the game."""
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

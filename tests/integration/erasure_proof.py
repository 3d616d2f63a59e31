"""The proof that a person is gone: a table loaded through Dagster, and a search of each file for marks of the person.

The search shares nothing with the product's own: it reads raw bytes, and each value of each Parquet file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as parquet
from pyspark.sql import SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.checks import checks_for
from incload_assets.declaration.window import window_of
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import fingerprints_of
from incload_assets.load.replay import replay_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.restore.rebuild import rebuild
from tests.support.tables import Loaded, day

PERSON = 471100100815
"""The identifier of the person who is erased: so long that no time, size or hash has it by chance."""
MARK = "anna-mark"
"""In every other value of the person's rows."""
OTHER = 230011998877
"""The identifier of somebody else."""


@dataclass
class Proof:
    """A table with persons, and a folder that holds all that loads of it leave: lake, landing area, Dagster's storage.

    Args:
        folder: Empty.
        instance: Dagster's, whose storage and logs are in the folder.
        settings: Where Spark is.
        spark: A session on it.
        asset: The table, whose subjects are of the kind ``person``.
    """

    folder: Path
    instance: dg.DagsterInstance
    settings: Settings
    spark: SparkSession
    asset: dg.AssetsDefinition

    def __post_init__(self) -> None:
        table = table_of(self.asset)
        assert table is not None
        self.kept = Loaded(self.spark, table, Lake(str(self.folder / "lake")), {})

    def load(self, *numbers: int) -> None:
        """Loads days, each in a Dagster run of its own, with the checks of the table."""
        resources = {
            "spark": SparkResource(spark=self.settings.spark, home=str(self.folder / "home")),
            "lake": self.kept.lake,
        }
        for number in numbers:
            done = dg.materialize(
                [self.asset, *checks_for(self.kept.table)],
                partition_key=day(number),
                instance=self.instance,
                resources={name: dg.ResourceDefinition.hardcoded_resource(one) for name, one in resources.items()},
                raise_on_error=False,
            )
            # checks may fail: each window has a rejected row
            made = {event.partition for event in done.get_asset_materialization_events()}
            failed = [event.step_failure_data.error for event in done.all_events if event.is_step_failure]
            assert made == {day(number)}, failed

    def load_again(self, *numbers: int) -> list[int]:
        """Reads days from the source again, as a backfill of new code does; the number of erased records in each."""
        self.kept.table, erased = replace(self.kept.table, code_version="2"), []
        for number in numbers:
            report = self.kept.load(number, if_held="release")
            evidence = report.evidence
            assert report.ingested
            assert sum(evidence.bins.values()) == evidence.rows_read
            erased.append(evidence.erased)
        return erased

    def undo(self, number: int) -> None:
        """Returns a day to its former landing."""
        window = window_of(self.kept.table.partitions_def, day(number))
        undo_window(LoadContext(self.spark, self.kept.table, self.kept.lake), window, Undo(actor="somebody"))

    def replay(self, number: int) -> None:
        """Validates the rejected rows of a day again."""
        window = window_of(self.kept.table.partitions_def, day(number))
        replay_window(LoadContext(self.spark, self.kept.table, self.kept.lake), window)

    def rebuild(self) -> list[str]:
        """The windows that are proven to an instance that knows nothing."""
        with dg.DagsterInstance.local_temp(_made(self.folder / "rebuilt")) as instance:
            return rebuild(LoadContext(self.spark, self.kept.table, self.kept.lake), instance).proven

    def erase(self, expected: set[str], *more: str) -> None:
        """Erases the person, whose marks are found before and not after.

        Args:
            expected: Places of marks before, as :meth:`marked` tells them; there may be others, but none of Dagster.
            more: As for :meth:`marked`.
        """
        before = self.marked(*more)
        assert before >= expected, before
        assert [place for place in before if place.startswith("dagster")] == []
        found = fingerprints_of([self.kept.table], "person", str(PERSON))
        made = Eraser(self.spark, self.kept.lake, [self.kept.table], "person", found).erase(self.instance)
        assert made.is_proven, [*made.lines()]
        assert self.marked(*more) == set()

    def marked(self, *more: str) -> set[str]:
        """The places of marks: ``table.COLUMN``, ``KIND.COLUMN`` of the log, or the path of a file that is not Parquet.

        Args:
            more: Marks beside the identifier and the mark, such as the identifier's token.
        """
        marks = (str(PERSON), MARK, *more)
        return {place for path in _files(self.folder) for place in _places(path, self.folder, marks)}


def instance_in(folder: Path) -> dg.DagsterInstance:
    """An instance with its storage and logs in the folder."""
    return dg.DagsterInstance.local_temp(_made(folder / "dagster"))


def _made(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _files(folder: Path) -> Iterable[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _places(path: Path, root: Path, marks: tuple[str, ...]) -> Iterator[str]:
    name, raw = str(path.relative_to(root)), path.read_bytes()
    # footers keep ranges of whole numbers as eight bytes
    if any(mark.encode() in raw for mark in marks) or PERSON.to_bytes(8, "little") in raw:
        yield name if path.suffix != ".parquet" else "bytes of " + _of(name)
    if path.suffix == ".parquet":
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            yield from (f"{_of(name)}.{column}" for column, value in row.items() if _has(value, marks))


def _has(value: Any, marks: tuple[str, ...]) -> bool:
    text = value.decode(errors="ignore") if isinstance(value, bytes) else str(value)
    return any(mark in text for mark in marks)


def _of(name: str) -> str:
    """The whole that a Parquet file is part of: the kind of rows of a change log, or a folder of the lake."""
    kinds = [part.removeprefix("_kind=") for part in name.split("/") if part.startswith("_kind=")]
    folder = name.split("/")[1]
    return kinds[0] if kinds and folder == "_changes" else "table" if not folder.startswith("_") else folder

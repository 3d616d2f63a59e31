"""Temporary state of a Spark session: settings of one statement, names of frames, a cached frame."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets Spark settings for a block, then unsets them: a fence left set would silently skip later writes."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


@contextmanager
def named(frame: DataFrame, name: str) -> Iterator[str]:
    """Gives a frame a name (a temporary view) for a block; yields the name.

    Delta keeps a table's latest state with a copy of the session that requested it. A name that is never dropped would
    retain the states that its frame reads, each with the names of its time: about 4 MB per MERGE.
    """
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        with suppress(PySparkException):  # an error of the block is more informative
            frame.sparkSession.catalog.dropTempView(name)


class CachedFrame:
    """At most one persisted frame."""

    def __init__(self) -> None:
        self._held: tuple[Hashable, DataFrame] | None = None

    def of(self, name: Hashable, frame: DataFrame) -> DataFrame:
        """The cached frame of a name, which is all that the frame depends on; one of another name is released."""
        if self._held is None or self._held[0] != name:
            self.release()
            # Spark identifies a cached frame by its plan: the unique column prevents reuse of a killed load's frame
            self._held = name, frame.withColumn("_kept", F.lit(uuid4().hex)).persist()
        return self._held[1].drop("_kept")

    def release(self) -> None:
        """Releases the cached frame."""
        if self._held is not None:
            with suppress(PySparkException):  # a server that is gone caches nothing, and its loss is reported elsewhere
                self._held[1].unpersist()
        self._held = None

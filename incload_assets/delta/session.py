"""What a session has for a while only: settings of one statement, and names of frames."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Settings that a session has Spark's defaults of otherwise; a fence left set would silently skip what comes next.

    Args:
        spark: The session.
        values: By name.
    """
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


@contextmanager
def named(frame: DataFrame, name: str) -> Iterator[str]:
    """A name for a frame.

    Delta holds a table's latest state with a copy of the session that asked for it, names included. A name left behind
    would hold the states that its frame reads, each with the names of its time, and so on: some 4 MB for each MERGE
    that the session ever made.

    Args:
        frame: In whose session it gets the name.
        name: In statements.

    Returns:
        The name.
    """
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        with suppress(PySparkException):  # what went wrong before tells more
            frame.sparkSession.catalog.dropTempView(name)


class CachedFrame:
    """The frame that is held, if any."""

    def __init__(self) -> None:
        self._held: tuple[Hashable, DataFrame] | None = None

    def of(self, name: Hashable, frame: DataFrame) -> DataFrame:
        """The frame of that name; one of another name is let go of.

        Args:
            name: All that the frame depends on.
            frame: Taken unless one of that name is held.
        """
        if self._held is None or self._held[0] != name:
            self.release()
            # Spark tells what it holds by its plan: the frame of a load that was killed must not be taken for this one
            self._held = name, frame.withColumn("_kept", F.lit(uuid4().hex)).persist()
        return self._held[1].drop("_kept")

    def release(self) -> None:
        """Let go of it."""
        if self._held is not None:
            with suppress(PySparkException):  # a server that is gone holds nothing; what went wrong is told by others
                self._held[1].unpersist()
        self._held = None

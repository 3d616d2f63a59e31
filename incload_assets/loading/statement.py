"""What a session has for a while only: settings of one statement, and names of frames."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession


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

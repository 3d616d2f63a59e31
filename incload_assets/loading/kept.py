"""Frames that several plans of one load share: Spark makes them once, and holds them until the load ends."""

from collections.abc import Hashable
from contextlib import suppress
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


class Kept:
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

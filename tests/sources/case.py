"""What the conformance suite has to know of a kind of source."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.declaration.changes import Changes
from incload_assets.declaration.source import Source
from tests.support.tables import DAYS

Row = Mapping[str, Any]
"""A record by field: text, ``int``, ``float``, ``Decimal``, ``bool``, ``date``, aware ``datetime``, None."""
Content = Mapping[str, Sequence[Row]]
"""What a source holds: rows by partition key."""


class Everything(pa.DataFrameModel):
    """A column of each type, and one that no source has."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True)
    amount: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 38, "scale": 18})
    big: T.LongType = pa.Field(nullable=True)
    small: T.IntegerType = pa.Field(nullable=True)
    ratio: T.DoubleType = pa.Field(nullable=True)
    flag: T.BooleanType = pa.Field(nullable=True)
    born: T.DateType = pa.Field(nullable=True)
    at: T.TimestampType = pa.Field(nullable=True)
    nowhere: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)


class Named(pa.DataFrameModel):
    """The least that a table of the same source can have."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)


TYPES: Mapping[str, type] = {
    "id": str, "name": str, "amount": Decimal, "big": int, "small": int, "ratio": float, "flag": bool, "born": date,
    "at": datetime, "seq": int, "op": str, "extra": str,
}  # fmt: skip
"""Every field that a row can have; ``op`` is 'd' for a delete, ``extra`` is unknown to the contract."""


@dataclass(frozen=True)
class Place:
    """What a case is made in.

    Args:
        folder: Empty, the test's own.
        spark: The session that will read.
        patch: For the environment.
        request: For fixtures that start servers.
        closing: For what has to end with the test.
    """

    folder: Path
    spark: SparkSession
    patch: pytest.MonkeyPatch
    request: pytest.FixtureRequest
    closing: ExitStack = field(default_factory=ExitStack)

    def server(self, fixture: str) -> Any:
        """The server of a fixture, started if it is the first time."""
        return self.request.getfixturevalue(fixture)


class Case(ABC):
    """A real source, empty at first, with what it can do and what can happen to it.

    The suite makes one for each of its tests. It fills it once, before the first look, and only then does to it what
    the class says that can be done.
    """

    name: ClassVar[str]
    """For the test's name; a class without one is only a base of others."""
    daily: ClassVar[bool] = True
    """Whether every run of the suite has the case; otherwise a night run."""
    partitions_def: ClassVar[dg.TimeWindowPartitionsDefinition] = DAYS
    changes: ClassVar[Changes] = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
    keeps_changes: ClassVar[bool] = True
    """Whether it shows every change of a key, in whatever order, and not only where it stands."""
    can_rewrite: ClassVar[bool] = True
    """Whether a window can be given other rows, fewer too."""
    can_fail: ClassVar[bool] = True
    """Whether it can be out of reach."""
    can_hang: ClassVar[bool] = False
    """Whether it can take a connection and then say nothing."""
    can_refuse: ClassVar[bool] = True
    """Whether there is something to refuse: credentials, a permission."""
    shows_empty_windows: ClassVar[bool] = False
    """Whether a window that holds nothing has a position, too."""
    requests_for_300_windows: ClassVar[int | None] = None
    """How many requests one look at 300 windows may take, where :meth:`requests` counts them."""
    named: ClassVar[str]
    """What of the source an error has to name, as a regular expression."""
    secret: ClassVar[str | None] = "not-to-be-shown"
    """What nothing may show."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def source(self) -> Source:
        """As a table declares it."""

    @abstractmethod
    def fill(self, content: Content) -> None:
        """Make the source hold exactly these rows, window by window, oldest first; windows not named hold nothing."""

    def rewrite(self, window: str, rows: Sequence[Row]) -> None:
        """Make a window hold these rows in place of those it holds."""
        raise NotImplementedError

    def fail(self) -> None:
        """Be out of reach from now on."""
        raise NotImplementedError

    def fail_amid_reading(self) -> None:
        """Be out of reach from somewhere in the midst of the next read on; by default at once."""
        self.fail()

    def hang(self) -> None:
        """Give no answer from now on."""
        raise NotImplementedError

    def recover(self) -> None:
        """Be in reach again."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Refuse who asks from now on."""
        raise NotImplementedError

    def requests(self) -> int:
        """How many requests it has had."""
        raise NotImplementedError

"""Facts about a sample of rows, counted by Spark, from which a declaration is inferred."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyspark.sql.types as T


@dataclass(frozen=True, kw_only=True)
class Column:
    """Facts about the values of one column in the sample.

    Args:
        name: The name in the source.
        native: The type in the source; StringType for what text formats hold.
        rows: Rows of the sample.
        nulls: Rows without a value.
        distinct: Different values.
        fits: Number of values that a load would read as a type, by the type's name in Spark, for example ``bigint``.
        zeros: Number of values that are digits with a leading zero.
        zoned: Number of instants with an offset from UTC.
        inexact: Number of values with an exponent, or that are no number, such as ``NaN``.
        scale: Most digits after the point.
        digits: Most digits before the point.
        emails: Number of values that are e-mail addresses; ``phones`` are telephone numbers, ``ips`` IP addresses.
        values: The few values of a column whose name suggests that they say what kind of change a row is.
        newest: The greatest instant or number, as text.
        quoted: True if the source marks texts as such, as JSON does: digits in quotes are no number.
        stated: What the source itself states about the type, for example ``numeric(12,2) in the database``.
        required: True if the source states that there is no NULL, False if it states the contrary.
    """

    name: str
    native: T.DataType
    rows: int
    nulls: int = 0
    distinct: int = 0
    fits: Mapping[str, int] = field(default_factory=dict)
    zeros: int = 0
    zoned: int = 0
    inexact: int = 0
    scale: int = 0
    digits: int = 0
    emails: int = 0
    phones: int = 0
    ips: int = 0
    values: tuple[str, ...] = ()
    newest: str | None = None
    quoted: bool = False
    stated: str = ""
    required: bool | None = None

    @property
    def filled(self) -> int:
        """Number of values other than NULL."""
        return self.rows - self.nulls

    @property
    def never_null(self) -> bool:
        """True if the sample has a value in each row."""
        return self.rows > 0 and not self.nulls


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The columns of a sample in the source's order, with its number of rows and of different rows."""

    columns: tuple[Column, ...]
    rows: int
    different: int
    unreadable: int = 0

    def column(self, name: str) -> Column:
        """The column of a name."""
        return next(column for column in self.columns if column.name == name)

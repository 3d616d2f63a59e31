"""Service level objectives of a table: what its users may expect of freshness, loads and rows."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from incload_assets.declaration.field_types import Share

Criticality = Literal["high", "normal", "low"]
"""How much depends on a table. ``high``: a person is paged. ``normal``: a ticket. ``low``: neither; it is shown."""

_Length = Annotated[timedelta, Field(gt=timedelta(0), description="a positive length of time")]

_Count = Annotated[int, Field(ge=1, description="a whole number, 1 or more")]


@dataclass(frozen=True, kw_only=True)
class Slo:
    """The objectives of a table; the defaults suit a table that is loaded by its sensor.

    Args:
        freshness: 95 % of the windows are loaded within this time after their end, and 95 % of the changes within this
            time after a sensor has seen them. None: the declared ``Freshness``, or 5 minutes if there is none.
        success: Share of the due windows that are loaded when they are due; a run that never started counts against it.
        missing: Largest share of the source's rows that a reconciliation finds missing in the table.
        duplicates: Largest share of the table's rows that repeat a key.
        reconciliation: Longest duration of a reconciliation.
        recovery: Longest mean time from a failure to the next success of the same window.
        lag_records: Most records that the source holds and no load has read, where the source can count them.
        slot_bytes: Most bytes of log that a PostgreSQL server keeps for the reader of the source's replication slot.
        period: The period over which the objectives are kept.

    Example:
        >>> Slo(freshness=timedelta(minutes=2), success=0.995).period.days
        30
    """

    freshness: _Length | None = None
    success: Share = 0.999
    missing: Share = 0.001
    duplicates: Share = 0.0001
    reconciliation: _Length = timedelta(hours=2)
    recovery: _Length = timedelta(hours=1)
    lag_records: _Count = 1_000_000
    slot_bytes: _Count = 1_000_000_000
    period: _Length = timedelta(days=30)

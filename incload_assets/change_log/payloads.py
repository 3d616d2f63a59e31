"""Payloads in the change log: the whole records that rejected rows keep, until their lifetime is over.

A payload that is removed is replaced by the word ``expired``, so that a replay can tell a record that is no longer kept
from one that never was. If a person has decided about the row, its identifier follows: the identifier is made of the
payload, and the decision has to find its row. The age of a payload is that of its data file. A commit that only moves
payloads to other files passes the age on, see :func:`payloads_read_at`.
"""

from collections.abc import Collection
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL, REJECTED
from incload_assets.platform.lake import data_files

EXPIRED = "expired"
"""The text in place of a payload that was removed."""
_ID = 64
"""Length of an identifier of a row."""


def is_expired() -> Column:
    """True if the payload of a row of the log was removed at the end of its lifetime."""
    return F.coalesce(F.col("_payload").rlike(f"^{EXPIRED}( [0-9a-f]{{{_ID}}})?$"), F.lit(False))


def keeps_payload() -> Column:
    """True if a row of the log has its payload."""
    return F.col("_payload").isNotNull() & ~is_expired()


def expired_payload(row_id: Column | None = None) -> Column:
    """The mark that takes the place of a payload.

    Args:
        row_id: The identifier of a row that a person has decided about, see
            :func:`incload_assets.change_log.decisions.rejected_row_id`.
    """
    return F.lit(EXPIRED) if row_id is None else F.concat(F.lit(f"{EXPIRED} "), row_id)


def expired_row_id() -> Column:
    """The identifier in place of a payload; NULL if there is none."""
    return F.when(is_expired() & (F.length("_payload") > len(EXPIRED)), F.right("_payload", F.lit(_ID)))


def payloads_read_at(log: DeltaTable, keys: Collection[str]) -> dict[str, datetime]:
    """When the oldest payloads of windows were read from their source, by partition key.

    Args:
        log: A version of the log.
        keys: The partition keys. Windows without rejected rows have the time of their oldest file.
    """
    files = data_files(log)
    wanted = pc.field("partition._window").isin(pa.array([*keys], pa.string()))
    found: dict[str, list[tuple[bool, int]]] = {}
    for file in files.filter(wanted & (pc.field("partition._kind") != CONTROL)).to_pylist():
        is_rejected = file["partition._kind"] == REJECTED
        found.setdefault(file["partition._window"], []).append((not is_rejected, file["modification_time"]))
    return {key: instant(min(times)[1]) for key, times in found.items()}


def windows_with_payloads(log: DeltaTable, since: datetime | None) -> set[str]:
    """The partition keys of windows with rejected rows that were read from their source since an instant.

    Args:
        log: A version of the log.
        since: The instant, aware; None: at any time.
    """
    wanted = pc.field("partition._kind") == REJECTED
    if since is not None:
        wanted &= pc.field("modification_time") >= milliseconds(since)
    return {str(key) for key in data_files(log).filter(wanted)["partition._window"].to_pylist()}


def milliseconds(at: datetime) -> int:
    """An aware instant as Delta writes it: milliseconds since 1970."""
    return round(1000 * at.timestamp())


def instant(written: int) -> datetime:
    """The aware instant for a time as Delta writes it, see :func:`milliseconds`."""
    return datetime.fromtimestamp(written / 1000, UTC)

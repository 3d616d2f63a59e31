"""The check ``clock``: the skew of the source's clock, and rows dated in the future."""

from datetime import timedelta

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from incload_assets.change_log.change import CHANGES
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import Observation, result
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import data_files
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.wording import several, some, spoken

NAME = "clock"
SECOND = timedelta(seconds=1)
TOLERANCE = timedelta(minutes=5)
"""How far a change may be dated ahead of our clock: clocks differ."""
DESCRIPTION = "The source's clock differs from ours by no more than its lag allows, and no row is dated in the future."


def clock(look: Observation) -> dg.AssetCheckResult:
    """How far the source's clock is from ours, and what is dated after it; WARN if either is wrong.

    Changes dated in the future win over all that come before that time: one writer's wrong clock makes the right
    changes of others stale. Only files that may have some are read, by the statistics of the log.
    """
    has_times = look.table.source.has_row_times
    if look.trouble is not None and has_times:
        return result(look, NAME, False, f"The source could not be checked: {look.trouble}")
    try:
        clocks = look.table.source.clocks(look.table.name) if has_times else []
    except IncrementalLoadError as error:
        return result(look, NAME, False, f"The source could not be checked: {error}")
    skew = max((clock.skew for clock in clocks), key=abs, default=timedelta())
    apart = [clock for clock in clocks if abs(clock.skew) > clock.allowed]
    ahead = sum(clock.ahead for clock in clocks)
    away = f"{spoken(abs(skew))} {'ahead of' if skew > timedelta() else 'behind'} " if abs(skew) >= SECOND else ""
    told = [f"The source's clock is {away}ours."] if clocks else []
    if apart:
        told.append(f"Its lag allows {spoken(apart[0].allowed)}. What to do: set the clocks, or declare a longer lag.")
    if ahead:
        first = min(clock.first for clock in clocks if clock.ahead)
        told.append(
            f"{several(ahead, 'row')} dated in the future, from {first} on. They are loaded when that time has come; "
            "no load waits for them. What to do: correct them at the source if the time is wrong."
        )
    if windows := sorted(_dated_ahead(look)):
        told.append(
            f"Changes in {some(windows)} have a {look.table.changes.sequence_by[0]!r} in the future, so that no change "
            "of their keys counts until then. What to do: have them corrected at the source, and load these again."
        )
    metadata = {
        "windows_in_the_future": dg.MetadataValue.int(len(windows)),
        "skew_seconds": dg.MetadataValue.float(round(skew.total_seconds(), 3)),
        "rows_in_the_future": dg.MetadataValue.int(ahead),
    }
    return result(
        look,
        NAME,
        not apart and not ahead and not windows,
        " ".join(told) or "No change is dated in the future.",
        metadata,
    )


def _dated_ahead(look: Observation) -> set[str]:
    """The partition keys of windows in whose changes the sequence is a time in the future."""
    delta = look.lake.delta(ChangeLog(look.table, look.lake).uri) if _has_dated_changes(look.table) else None
    column = look.table.changes.sequence_by[0] if delta else ""
    if delta is None or column not in delta.schema().to_arrow().names:
        return set()
    latest = pa.scalar(look.now + TOLERANCE, pa.timestamp("us", "UTC"))
    files = data_files(delta).filter(pc.field("partition._kind").isin([*CHANGES]))
    if (newest := f"max.{column}") in files.schema.names:  # a file without a range may have any row
        files = files.filter(pc.fill_null(pc.greater(files[newest], latest), True))
    found = rows_where(delta, where=pc.field(column) > latest, columns=["_window"], files=files)
    return set(found["_window"].to_pylist())


def _has_dated_changes(table: Table) -> bool:
    """True if changes are ordered by a timestamp column."""
    first = table.changes.sequence_by[:1]
    return bool(first) and first[0] in table.columns and isinstance(table.type_of(first[0]), T.TimestampType)


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="clock-skew",
    evaluate=clock,
    applies_to=lambda table: table.source.has_row_times or _has_dated_changes(table),
    rough={"skew_seconds": not_at_all, "rows_in_the_future": bool},  # the time of some has come at each look
)

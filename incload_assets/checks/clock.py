"""The check ``clock``: the skew of the source's clock, and rows dated in the future."""

from datetime import timedelta

import dagster as dg

from incload_assets.checks.kinds import LightCheck
from incload_assets.checks.observation import Observation, result, several, spoken
from resources.errors import IncrementalLoadError

NAME = "clock"
SECOND = timedelta(seconds=1)
DESCRIPTION = "The source's clock differs from ours by no more than its lag allows, and no row is dated in the future."


def clock(look: Observation) -> dg.AssetCheckResult:
    """How far the source's clock is from ours, and how many rows are dated after it; WARN if either is wrong."""
    if look.trouble is not None:
        return result(look, NAME, False, f"The source could not be checked: {look.trouble}")
    try:
        clocks = look.table.source.clocks(look.table.name)
    except IncrementalLoadError as error:
        return result(look, NAME, False, f"The source could not be checked: {error}")
    skew = max((clock.skew for clock in clocks), key=abs, default=timedelta())
    apart = [clock for clock in clocks if abs(clock.skew) > clock.allowed]
    ahead = sum(clock.ahead for clock in clocks)
    away = f"{spoken(abs(skew))} {'ahead of' if skew > timedelta() else 'behind'} " if abs(skew) >= SECOND else ""
    told = [f"The source's clock is {away}ours."]
    if apart:
        told.append(f"Its lag allows {spoken(apart[0].allowed)}. What to do: set the clocks, or declare a longer lag.")
    if ahead:
        first = min(clock.first for clock in clocks if clock.ahead)
        told.append(
            f"{several(ahead, 'row')} dated in the future, from {first} on. They are loaded when that time has come; "
            "no load waits for them. What to do: correct them at the source if the time is wrong."
        )
    metadata = {
        "skew_seconds": dg.MetadataValue.float(round(skew.total_seconds(), 3)),
        "rows_in_the_future": dg.MetadataValue.int(ahead),
    }
    return result(look, NAME, not apart and not ahead, " ".join(told), metadata)


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="clock-skew",
    evaluate=clock,
    applies_to=lambda table: table.source.has_row_times,
)

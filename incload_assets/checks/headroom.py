"""Will the source still have what is not loaded yet, when it is loaded?"""

import dagster as dg

from incload_assets.checks.look import Look, result, several, spoken
from incload_assets.loading.errors import IncrementalLoadError

NAME = "headroom"
DESCRIPTION = "The source keeps what is not loaded yet for at least a quarter of its retention time more."
SHARE = 4
"""The part of the retention time that has to be left, as its divisor."""


def headroom(look: Look) -> dg.AssetCheckResult:
    """How long the source keeps the oldest of what is not loaded; ERROR when it may be gone."""
    if look.trouble is not None:
        return result(look, NAME, False, f"The source could not be looked at: {look.trouble}")
    waiting = {w.window: w.position for w in look.progress if w.position is not None and w.status != "loaded"}
    if not waiting:
        return result(look, NAME, True, "Everything that the source holds is loaded.")
    try:
        expiry = look.table.source.expiry(look.table.name, waiting)
    except IncrementalLoadError as error:
        return result(look, NAME, True, f"How long the source keeps what is not loaded cannot be told: {error}")
    if expiry is None:
        return result(look, NAME, True, "The source removes nothing because of its age.")
    left = expiry.removed - look.now
    gone = left.total_seconds() <= 0
    when = "may have removed the oldest of it" if gone else f"removes the oldest of it in {spoken(left)}"
    passed = left * SHARE >= expiry.removed - expiry.oldest
    remedy = "" if passed else " What to do: load it, oldest first, or have the source keep it for longer meanwhile."
    instant = f"{expiry.removed:%Y-%m-%d %H:%M} UTC"
    return result(
        look,
        NAME,
        passed,
        f"{several(len(waiting), 'window')} not loaded; the source {when}, {instant}.{remedy}",
        {
            "windows_not_loaded": dg.MetadataValue.int(len(waiting)),
            "hours_left": dg.MetadataValue.float(round(left.total_seconds() / 3600, 2)),
            "oldest": dg.MetadataValue.timestamp(expiry.oldest),
        },
        dg.AssetCheckSeverity.ERROR if gone else dg.AssetCheckSeverity.WARN,
    )

"""The check ``headroom``: how much longer the source keeps data that is not loaded yet."""

from datetime import timedelta

import dagster as dg

from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import UNCHECKED, Observation, result
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several, spoken

NAME = "headroom"
DESCRIPTION = "Data that is not loaded yet has at least a quarter of the source's retention left."
SHARE = 1 / 4
"""Share of a source's retention (time or size) that has to be left."""
STEP, STEPS = 0.05, 10
"""The share left is a new finding at each twentieth, below a half."""
SMALL = 64 * 1024 * 1024
"""The kept bytes are a new finding at each doubling, from here on."""


def headroom(look: Observation) -> dg.AssetCheckResult:
    """How much retention data that is not loaded has left, in time or size; ERROR when some of it may be gone."""
    if look.trouble is not None:
        return result(look, NAME, False, f"The source could not be checked: {look.trouble}")
    waiting = {
        w.window: w.position for w in look.progress if w.position is not None and w.status not in ("loaded", "held")
    }
    try:
        found = look.table.source.headroom(look.table.name, waiting, look.now)
    except IncrementalLoadError as error:
        unknown = {UNCHECKED: dg.MetadataValue.text(str(error))}
        return result(look, NAME, True, f"How much longer the source keeps unloaded data is unknown: {error}", unknown)
    count = f"{several(len(waiting), 'window')} not loaded" if waiting else "Everything that the source holds is loaded"
    if not found:
        kept = "; the source removes no data because of its age" if waiting else ""
        return result(look, NAME, True, f"{count}{kept}.", {"windows_not_loaded": dg.MetadataValue.int(len(waiting))})
    passed = all(keeper.left >= SHARE and keeper.read is not False for keeper in found)
    gone = any(keeper.left <= 0 for keeper in found)
    lost = "have the lost data sent again or take a new full extract; " if gone else ""
    remedy = f" What to do: {lost}load the remaining windows, oldest first; check the connector; or retain more."
    metadata: dict[str, dg.MetadataValue] = {
        "windows_not_loaded": dg.MetadataValue.int(len(waiting)),
        "share_left": dg.MetadataValue.float(round(min(keeper.left for keeper in found), 3)),
    }
    if ends := [keeper.removed for keeper in found if keeper.removed is not None]:
        metadata["removed"] = dg.MetadataValue.timestamp(min(ends))
        metadata["time_left"] = dg.MetadataValue.text(spoken(max(min(ends) - look.now, timedelta())))
    if sizes := [keeper.kept for keeper in found if keeper.kept is not None]:
        metadata["bytes_kept"] = dg.MetadataValue.int(max(sum(sizes), 0))
    told = "; ".join([count, *(keeper.says for keeper in found)])
    severity = dg.AssetCheckSeverity.ERROR if gone else dg.AssetCheckSeverity.WARN
    return result(look, NAME, passed, f"{told}.{'' if passed else remedy}", metadata, severity)


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="missed-updates",
    evaluate=headroom,
    applies_to=lambda table: table.source.expires_rows,
    rough={
        "windows_not_loaded": bool,
        "share_left": lambda share: min(int(share // STEP), STEPS),
        "bytes_kept": lambda kept: max(kept, SMALL).bit_length(),
        "removed": not_at_all,
        "time_left": not_at_all,
    },
)

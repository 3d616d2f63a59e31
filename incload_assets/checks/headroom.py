"""Will the source still have what is not loaded yet, when it is loaded?"""

from datetime import timedelta

import dagster as dg

from incload_assets.checks.observation import Observation, result, several, spoken
from resources.errors import IncrementalLoadError

NAME = "headroom"
DESCRIPTION = "What is not loaded is kept by the source for at least a quarter more of what it keeps at most."
SHARE = 1 / 4
"""Of what a source keeps at most: how much has to be left."""


def headroom(look: Observation) -> dg.AssetCheckResult:
    """How long, or how much, the source still keeps of what is not loaded; ERROR when some may be gone."""
    if look.trouble is not None:
        return result(look, NAME, False, f"The source could not be looked at: {look.trouble}")
    waiting = {w.window: w.position for w in look.progress if w.position is not None and w.status != "loaded"}
    try:
        found = look.table.source.headroom(look.table.name, waiting, look.now)
    except IncrementalLoadError as error:
        return result(look, NAME, True, f"How much longer the source keeps what is not loaded cannot be told: {error}")
    count = f"{several(len(waiting), 'window')} not loaded" if waiting else "Everything that the source holds is loaded"
    if not found:
        kept = "; the source removes nothing because of its age" if waiting else ""
        return result(look, NAME, True, f"{count}{kept}.")
    passed = all(keeper.left >= SHARE and keeper.read is not False for keeper in found)
    gone = any(keeper.left <= 0 for keeper in found)
    lost = "have what is gone sent or snapshotted once more; " if gone else ""
    remedy = f" What to do: {lost}load it, oldest first, see to it that the connector runs, or have more kept."
    metadata: dict[str, dg.MetadataValue] = {
        "windows_not_loaded": dg.MetadataValue.int(len(waiting)),
        "share_left": dg.MetadataValue.float(round(min(keeper.left for keeper in found), 3)),
    }
    if ends := [keeper.removed for keeper in found if keeper.removed is not None]:
        metadata["removed"] = dg.MetadataValue.timestamp(min(ends))
        metadata["time_left"] = dg.MetadataValue.text(spoken(max(min(ends) - look.now, timedelta())))
    told = "; ".join([count, *(keeper.says for keeper in found)])
    severity = dg.AssetCheckSeverity.ERROR if gone else dg.AssetCheckSeverity.WARN
    return result(look, NAME, passed, f"{told}.{'' if passed else remedy}", metadata, severity)

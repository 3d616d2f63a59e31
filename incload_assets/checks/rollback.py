"""The check ``rollback``: whether the table was restored to an older version, deleted or created again.

The sensor requests the lost windows again. The last result stores the state of :mod:`incload_assets.progress.undone`.
"""

import dagster as dg

from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import Observation, records, result
from incload_assets.platform.wording import several, some
from incload_assets.progress.undone import CHECK as ROLLBACK
from incload_assets.progress.undone import SEEN, undone_windows

NAME = ROLLBACK
DESCRIPTION = "The table is the one that was loaded: not restored to an older version, deleted or created again."
REPAIR = "repair"
"""Metadata: why a load is needed, by partition key; the sensor requests these partitions."""


def rollback(look: Observation) -> dg.AssetCheckResult:
    """The check that the last load of no window is undone; ERROR if one is."""
    last = look.last_verdict(NAME)
    found = undone_windows(look.instance, look.table, look.lake, look.progress, look.now, last)
    lost = found.windows
    metadata: dict[str, dg.MetadataValue] = {"windows_undone": dg.MetadataValue.int(len(lost))}
    if found.seen:
        metadata[SEEN] = dg.MetadataValue.json(found.seen)
    if not lost:
        loaded = any(w.is_loaded and w.status in ("loaded", "held", "failed") for w in look.progress)
        note = "The table is the one that was loaded." if loaded else "No window is loaded."
        return result(look, NAME, True, note, metadata)
    metadata[REPAIR] = dg.MetadataValue.json(lost)
    metadata["newest_load"] = dg.MetadataValue.int(found.newest)  # a repair is asked for once, and again if it failed
    metadata["windows"] = records(["window", "why"], list(lost.items()))
    why = "; ".join(sorted(set(lost.values())))
    failed = [w.key for w in look.progress if w.key in lost and w.status == "failed"]
    after = f" ({some(failed)} after the cause of its last failure is fixed)" if failed else ""
    note = (
        f"{several(len(lost), 'loaded window')} may no longer be in the table: {some(list(lost))} ({why}). What to "
        f"do: nothing, the sensor requests them again{after}, and a load writes only what is missing. To stay with "
        "the older version, pause the sensor."
    )
    return result(look, NAME, False, note, metadata, dg.AssetCheckSeverity.ERROR)


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="checkpoint-loss",
    evaluate=rollback,
    rough={SEEN: not_at_all},  # an older one only has more commits read again
)

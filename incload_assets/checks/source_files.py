"""Is everything that was loaded still at the source, and what is there that is not loaded because of its name?"""

from collections.abc import Sequence

import dagster as dg

from incload_assets.checks.observation import LISTED, Observation, records, result, several, some
from incload_assets.progress.verdicts import last_finding
from resources.errors import IncrementalLoadError

NAME = "source_files"
DESCRIPTION = (
    "Every file that was loaded is still at the source; one that is gone takes no rows with it by itself. "
    "Files that are left out because of their names are told, too."
)
LEFT_OUT = "left_out"
"""The names of files that were left out, in the metadata: what was told before is no news."""


def source_files(look: Observation) -> dg.AssetCheckResult:
    """Landed files that are gone from the source, and files that are left out because of their names."""
    if look.trouble is None:
        try:
            gone = look.table.source.missing(look.table.name, look.state.windows, look.state.ingested)
        except IncrementalLoadError as error:
            return _unseen(look, str(error))
    else:
        return _unseen(look, look.trouble)
    gone = {window.key: gone[window.key] for window in look.state.windows if gone.get(window.key)}
    count = sum(map(len, gone.values()))
    metadata: dict[str, dg.MetadataValue] = {
        "missing_files": dg.MetadataValue.int(count),
        "windows_concerned": dg.MetadataValue.int(len(gone)),
        "windows_landed": dg.MetadataValue.int(len(look.controls)),
    }
    left_out, metadata[LEFT_OUT] = _left_out(look)
    if not gone:
        return result(look, NAME, True, f"Everything that was loaded is still at the source.{left_out}", metadata)
    metadata["gone"] = records(["window", "name"], ((key, name) for key, names in gone.items() for name in names))
    return result(
        look,
        NAME,
        False,
        f"Loaded, and gone from the source: {several(count, 'file')} of {several(len(gone), 'window')} "
        f"({some(list(gone))}). The table keeps their rows. What to do: restore the files, or, if their rows are to go "
        f'too, declare deleted="retract" on the source.{left_out}',
        metadata,
    )


def _left_out(look: Observation) -> tuple[str, dg.JsonMetadataValue]:
    """The words about files that are left out, and the names of these files."""
    names, told = look.state.left_out[:LISTED], _told(look)
    if not names:
        return "", dg.MetadataValue.json([])
    new = [name for name in names if name not in told]
    if not new:
        return f" Left out because of their names, as told before: {some(names)}.", dg.MetadataValue.json(list(names))
    return (
        f" Left out because of their names: {some(new)}. If they are to be loaded, rename them, or let the path match "
        "them; else there is nothing to do, and they are told only once.",
        dg.MetadataValue.json(list(names)),
    )


def _told(look: Observation) -> Sequence[str]:
    last = last_finding(look.instance, dg.AssetCheckKey(look.table.key, NAME), LEFT_OUT)
    return last[1] if last else ()


def _unseen(look: Observation, trouble: str) -> dg.AssetCheckResult:
    known = {LEFT_OUT: dg.MetadataValue.json(list(_told(look)))}
    return result(look, NAME, False, f"The source could not be looked at: {trouble}", known)

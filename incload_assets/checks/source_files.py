"""Is everything that was loaded still at the source?"""

import dagster as dg

from incload_assets.checks.look import Look, records, result, several, some
from incload_assets.loading.errors import IncrementalLoadError

NAME = "source_files"
DESCRIPTION = "Every file that was loaded is still at the source; one that is gone takes no rows with it by itself."


def source_files(look: Look) -> dg.AssetCheckResult:
    """Which landed files are gone from the source."""
    if look.trouble is None:
        try:
            gone = look.table.source.missing(look.table.name, look.state.windows, look.state.landed)
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
    if not gone:
        return result(look, NAME, True, "Everything that was loaded is still at the source.", metadata)
    metadata["gone"] = records(["window", "name"], ((key, name) for key, names in gone.items() for name in names))
    return result(
        look,
        NAME,
        False,
        f"Loaded, and gone from the source: {several(count, 'file')} of {several(len(gone), 'window')} "
        f"({some(list(gone))}). The table keeps their rows. What to do: restore the files, or, if their rows are to go "
        'too, declare deleted="retract" on the source.',
        metadata,
    )


def _unseen(look: Look, trouble: str) -> dg.AssetCheckResult:
    return result(look, NAME, False, f"The source could not be looked at: {trouble}")

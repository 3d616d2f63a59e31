"""The check ``source_files``: loaded files that are gone from the source, and files left out because of their names."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.checks.kinds import LightCheck
from incload_assets.checks.observation import LISTED, Observation, records, result
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several, some
from incload_assets.progress.verdicts import finding_in

NAME = "source_files"
DESCRIPTION = (
    "Every file that was loaded is still at the source; a file that is gone does not remove its rows by itself. "
    "Files that are left out because of their names are reported, too."
)
LEFT_OUT = "left_out"
"""Metadata: the names of files that were left out, so that each is reported as new only once."""


def source_files(look: Observation) -> dg.AssetCheckResult:
    """Loaded files that are gone from the source, and files that are left out because of their names; WARN if gone."""
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
        "windows_landed": dg.MetadataValue.int(len(look.records)),
    }
    left_out, metadata[LEFT_OUT] = _left_out(look)
    if not gone:
        return result(look, NAME, True, f"Everything that was loaded is still at the source.{left_out}", metadata)
    metadata["gone"] = records(["window", "name"], ((key, name) for key, names in gone.items() for name in names))
    return result(
        look,
        NAME,
        False,
        f"Loaded, but gone from the source: {several(count, 'file')} of {several(len(gone), 'window')} "
        f"({some(list(gone))}). The table keeps their rows. What to do: restore the files; or, to remove their rows, "
        f'declare deleted="retract" on the source.{left_out}',
        metadata,
    )


def _left_out(look: Observation) -> tuple[str, dg.JsonMetadataValue]:
    """The description of files that are left out, and their names as metadata."""
    names, reported = look.state.left_out[:LISTED], _reported(look)
    if not names:
        return "", dg.MetadataValue.json([])
    new = [name for name in names if name not in reported]
    if not new:
        return f" Left out because of their names, as before: {some(names)}.", dg.MetadataValue.json(list(names))
    return (
        f" Left out because of their names: {some(new)}. To load them, rename them or let the path match them. "
        "Otherwise there is nothing to do; they are reported as new only once.",
        dg.MetadataValue.json(list(names)),
    )


def _reported(look: Observation) -> Sequence[str]:
    """The names of files that were left out that the last result reported."""
    last = finding_in(look.last_verdict(NAME), LEFT_OUT)
    return last[1] if last else ()


def _unseen(look: Observation, trouble: str) -> dg.AssetCheckResult:
    known = {LEFT_OUT: dg.MetadataValue.json(list(_reported(look)))}
    return result(look, NAME, False, f"The source could not be checked: {trouble}", known)


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="resync",
    evaluate=source_files,
    applies_to=lambda table: table.source.names_what_it_holds(),
)

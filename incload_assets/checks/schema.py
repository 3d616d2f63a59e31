"""The check ``schema``: fields that the contract does not declare, and values that a column's type refuses."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.checks.kinds import LightCheck
from incload_assets.checks.observation import Observation, records, result
from incload_assets.platform.wording import several, some
from incload_assets.progress.schema_findings import (
    SchemaFinding,
    keep_schemas,
    known_schemas,
    look_at_schema,
)

NAME = "schema"
DESCRIPTION = "The source sends no field that the contract does not declare, and no value that a column's type refuses."

RECENT = 10
"""Number of windows landed last in which a refused value warns: what an old window has cannot be taken back."""
MOST_WINDOWS = 500
"""Limit of windows per evaluation, usually those loaded since the last one; the first may leave some for the next."""
MOST_ROWS = 5_000_000
"""Limit of rows of the log per evaluation, but one window at least is read."""


def schema(look: Observation) -> dg.AssetCheckResult:
    """Unknown fields and refused types in the log; WARN while the contract neither declares nor ignores a field."""
    known = known_schemas(look.instance, look.table)
    found = look_at_schema(look.table, look.lake, known, most_windows=MOST_WINDOWS, most_rows=MOST_ROWS)
    if found.known.keys() != known.keys() or any(found.known[key] != known[key] for key in known):
        keep_schemas(look.instance, look.table, found.known)
    recent = sorted(look.records, key=lambda key: look.records[key].landed_at)[-RECENT:]
    unknown = [one for one in found.findings if one.what == "unknown field"]
    refused = [one for one in found.findings if one.what == "refused type" and not {*recent}.isdisjoint(one.windows)]
    metadata: dict[str, dg.MetadataValue] = {
        "unknown_fields": dg.MetadataValue.int(len(unknown)),
        "refused_types": dg.MetadataValue.int(len(refused)),
    }
    if found.findings:
        metadata["fields"] = records(
            ["field", "what", "rows", "since", "landed (UTC)", "last", "line for the contract"],
            (
                (one.name, one.what, one.rows, one.first, _instant(one), one.last, one.line)
                for one in found.findings
            ),
        )  # fmt: skip
    if found.left:
        metadata["windows_not_read"] = dg.MetadataValue.int(found.left)
    description = " ".join(_described(look, unknown, refused, found.left))
    return result(look, NAME, not (unknown or refused), description, metadata)


def _described(
    look: Observation, unknown: Sequence[SchemaFinding], refused: Sequence[SchemaFinding], left: int
) -> list[str]:
    name = look.table.contract.model_name
    told = []
    if unknown:
        told.append(
            f"{name} does not declare {some([_told(one) for one in unknown])}. The values are kept beside the rows. "
            "What to do: add the lines below to the contract and run `incload fill`, or name the fields in "
            "Evolution(ignore=[...])."
        )
    if refused:
        told.append(
            f"Values that a type refuses: {some([_told(one) for one in refused])}; these rows are in quarantine. What "
            "to do: see the lines below, and ask the source's owner what changed."
        )
    if not told:
        told.append(
            f"Every field that the source sends is declared by {name}, or used by a condition."
            if look.records
            else "Nothing was loaded yet."
        )
    if left:
        told.append(f"Not read yet: {several(left, 'window')} of former loads; the next evaluations read them.")
    return told


def _told(one: SchemaFinding) -> str:
    return f"{one.name!r} ({several(one.rows, 'row')} since {one.first})"


def _instant(one: SchemaFinding) -> str:
    return f"{one.since:%Y-%m-%d %H:%M}" if one.since else ""


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="schema-break",
    evaluate=schema,
)

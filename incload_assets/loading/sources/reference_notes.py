"""What loads found out about references between tables: a small Delta table for each table that refers.

A note holds for one state of the table referred to, and as long as the window's own rows stay the same. If it is lost,
or out of date, that costs loads that write nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from resources.lake import Lake

_SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("notes", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Settled:
    """A window does not refer to anything that has changed in a table since it was made.

    Args:
        own: Digest of the window's own rows.
        rows: The state of the table that the window was made of: ``rows`` of the landed position.
        files: Digest of the table's files that are as good for it.
        version: The table's version with these files.
    """

    own: str
    rows: str
    files: str
    version: int


Notes = Mapping[tuple[str, str], Settled]
"""By partition key and name of the table."""


def read_notes(lake: Lake, table: str) -> dict[tuple[str, str], Settled]:
    """What was written down last for a table."""
    delta = lake.delta(lake.references_uri(table.split("/")))
    if delta is None:
        return {}
    newest = [("number", "=", delta.transaction_version(_app_id(table)) or 0)]
    [notes] = delta.to_pyarrow_table(filters=newest).column("notes").to_pylist() or ["{}"]
    found = json.loads(notes)
    return {(key, name): Settled(*values) for key, of_window in found.items() for name, values in of_window.items()}


def write_notes(lake: Lake, table: str, notes: Notes) -> None:
    """Write down what was found out, in place of what was; unless another load does so at the same moment."""
    uri = lake.references_uri(table.split("/"))
    found: dict[str, dict[str, list[str | int]]] = {}
    for (key, name), note in notes.items():
        found.setdefault(key, {})[name] = [note.own, note.rows, note.files, note.version]
    number = (lake.transaction_version(uri, _app_id(table)) or 0) + 1
    row = {"number": number, "notes": json.dumps(found, sort_keys=True)}
    lake.append(uri, pa.Table.from_pylist([row], _SCHEMA), _app_id(table), number)


def _app_id(table: str) -> str:
    return f"{table}/references"

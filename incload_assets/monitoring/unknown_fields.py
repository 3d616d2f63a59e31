"""Fields that a source sends and the contract does not declare, found in the log without Spark.

The log keeps them beside each row, as a JSON object. Of a table with protected columns it keeps their names only.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow.compute as pc

from incload_assets.contract.contract import MASK
from incload_assets.contract.nested_json import holds_struct
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows
from resources.lake import Lake

_TYPES = {"boolean": "T.BooleanType", "integer": "T.LongType", "number": "T.DoubleType", "date": "T.DateType",
          "time": "T.TimestampType"}  # fmt: skip
"""The types to declare, by the form that all values have; text for any other."""
_FORMS = (
    ("boolean", r"true|false"),
    ("integer", r"-?(0|[1-9]\d{0,17})"),
    ("number", r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"),
    ("date", r"\d{4}-\d\d-\d\d"),
    ("time", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)"),
)


@dataclass(frozen=True)
class UnknownField:
    """A field outside the contract.

    Args:
        name: The field.
        rows: The number of rows that have it.
        first: The partition key of the first window with such a row.
        last: That of the last one.
        line: The line that declares it. For members of a declared field: where they have to be declared.
    """

    name: str
    rows: int
    first: str
    last: str
    line: str


@dataclass
class _Seen:
    rows: int = 0
    windows: set[str] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)


def unknown_fields(table: Table, lake: Lake) -> list[UnknownField]:
    """The fields outside the contract that rows of the log have, those of most rows first; no value is among them.

    Args:
        table: The declaration.
        lake: The lake.

    Example:
        >>> unknown_fields(payments, lake)[0].line  # doctest: +SKIP
        'state: T.StringType = pa.Field(nullable=True)'
    """
    log = lake.delta(lake.log_uri(table.key.path))
    if log is None:
        return []
    seen: dict[str, _Seen] = {}
    batches = log.to_pyarrow_dataset().to_batches(
        columns=["_window", "_rescued"], filter=pc.field("_rescued").is_valid()
    )
    for batch in batches:
        for window, text in zip(batch["_window"].to_pylist(), batch["_rescued"].to_pylist(), strict=True):
            for name, value in json.loads(text).items():
                of = seen.setdefault(name, _Seen())
                of.rows += 1
                of.windows.add(window)
                of.forms.add(_form(value))
    return sorted(_fields(seen, table), key=lambda one: (-one.rows, one.name))


def windows_to_fill(table: Table, lake: Lake) -> dict[str, list[str]]:
    """The windows with rescued fields whose values a declared column lacks: the names, by partition key.

    Args:
        table: The declaration.
        lake: The lake.
    """
    log = lake.delta(lake.log_uri(table.key.path))
    if log is None:
        return {}
    known = {name for name in table.columns if name in log.schema().to_arrow().names}
    found: dict[str, set[str]] = {}
    batches = log.to_pyarrow_dataset().to_batches(
        columns=["_window", "_rescued", *sorted(known)], filter=pc.field("_rescued").is_valid()
    )
    for batch in batches:
        for row in batch.to_pylist():
            lacking = [
                name
                for name, value in json.loads(row["_rescued"]).items()
                if name in table.columns and row.get(name) is None and value != MASK
            ]
            if lacking:
                found.setdefault(row["_window"], set()).update(lacking)
    return {window.key: sorted(found[window.key]) for window in known_windows(table.partitions_def, list(found))}


def _fields(seen: dict[str, _Seen], table: Table) -> Iterator[UnknownField]:
    for name, of in seen.items():
        ordered = [window.key for window in table.known_windows(of.windows)] or sorted(of.windows)
        yield UnknownField(name, of.rows, ordered[0], ordered[-1], _line(name, of.forms, table))


def _line(name: str, forms: Iterable[str], table: Table) -> str:
    if name in table.columns:
        if holds_struct(table.type_of(name)):
            return f"{name} has members that its type does not declare"
        return f"{name} is declared; incload fill {table.name} fills it"
    found = set(forms) - {"null"}
    found = {"number"} if found == {"integer", "number"} else found
    declared = _TYPES.get(next(iter(found)), "T.StringType") if len(found) == 1 else "T.StringType"
    if re.fullmatch(r"[A-Za-z]\w*", name):
        return f"{name}: {declared} = pa.Field(nullable=True)"
    attribute = re.sub(r"\W", "_", name).strip("_").lower() or "field"
    return f"{attribute}: {declared} = pa.Field(nullable=True, alias={name!r})"


def _form(value: object) -> str:
    """The form of a value, as JSON has it or as its text reads."""
    if value is None or value == "":
        return "null"
    if isinstance(value, bool):
        return "boolean"
    text = value if isinstance(value, str) else json.dumps(value)
    if text == MASK:
        return "text"
    return next((form for form, pattern in _FORMS if re.fullmatch(pattern, text)), "text")

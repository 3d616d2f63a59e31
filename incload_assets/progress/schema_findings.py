"""The fields and values of a source that the contract does not expect: undeclared ones, and others than its types.

The Dagster instance keeps what each window's rows show, with a digest of its files: only changed windows are read.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import dagster as dg
import pyspark.sql.types as T

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.source_schema import NO_VALUE, SIZE, WindowSchema, files_by_window, schemas_of
from incload_assets.contract.contract import shown_type
from incload_assets.contract.literals import INTEGERS
from incload_assets.contract.nested_json import holds_struct
from incload_assets.contract.wider_types import holds_text
from incload_assets.declaration.contract_of import adaptation_of
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.progress.instance_values import keep_values, values_of

What = Literal["unknown field", "declared since", "refused type"]
Known = Mapping[str, tuple[str, WindowSchema]]
"""What is known of windows, by partition key, each with the digest of its files."""

MOST_DIGITS = 38
_KEPT = "incload/schema with sizes of "
_TYPES = {"boolean": "T.BooleanType", "integer": "T.LongType", "number": "T.DoubleType", "date": "T.DateType",
          "time": "T.TimestampType"}  # fmt: skip
"""The types to declare, by the form that all values have; text for any other."""


@dataclass(frozen=True, kw_only=True)
class SchemaFinding:
    """A field that a source sends otherwise than the contract says, in rows of some windows (oldest first).

    Args:
        what: ``declared since``: the contract declares it now, and rows of windows landed before have it beside them.
        since: When the first of these windows was landed, aware; None if that is unknown.
        line: The line for the contract, or what to do instead.
    """

    name: str
    what: What
    rows: int
    windows: tuple[str, ...]
    since: datetime | None
    line: str

    @property
    def first(self) -> str:
        """The partition key of the first window with such a row."""
        return self.windows[0]

    @property
    def last(self) -> str:
        """The partition key of the last window with such a row."""
        return self.windows[-1]


@dataclass(frozen=True)
class SchemaLook:
    """A look at the log: findings (unknown fields first, then most rows first), what is known, and windows not read."""

    findings: list[SchemaFinding]
    known: Known
    left: int = 0


def look_at_schema(
    table: Table,
    lake: Lake,
    known: Known | None = None,
    *,
    most_windows: int | None = None,
    most_rows: int | None = None,
) -> SchemaLook:
    """The fields and values of a source that the contract does not expect, by the log's rows; no value is in it.

    Fields that the table's evolution ignores are left out. Windows known with the same files are not read again; others
    are read newest first, at least one, up to the given numbers of windows and rows.
    """
    known = known or {}
    log = lake.delta(lake.log_uri(table.key.path))
    if log is None:
        return SchemaLook([], {})
    files = files_by_window(log)
    same = {key: known[key] for key, (digest, _) in files.items() if key in known and known[key][0] == digest}
    new = _newest_first([key for key in files if key not in same], table)
    read = _as_many([(key, files[key][1]) for key in new], most_windows, most_rows)
    found = schemas_of(log, read, table.columns)
    now = {**same, **{key: (files[key][0], found[key]) for key in read}}
    findings = _findings({key: schema for key, (_, schema) in now.items()}, table, lake)
    return SchemaLook(findings, now, len(new) - len(read))


def known_schemas(instance: dg.DagsterInstance, table: Table) -> Known:
    """The schemas of a table's windows that an instance keeps; none if it keeps none, or they cannot be read."""
    name = _KEPT + table.name
    kept = values_of(instance, [name]).get(name)
    try:
        found: dict[str, list[Any]] = json.loads(kept or "{}")
        return {key: (digest, WindowSchema.of_plain(plain)) for key, (digest, *plain) in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def keep_schemas(instance: dg.DagsterInstance, table: Table, known: Known) -> None:
    """Has an instance keep what is known of a table's windows."""
    plain = {key: [digest, *schema.as_plain()] for key, (digest, schema) in known.items()}
    keep_values(instance, {_KEPT + table.name: json.dumps(plain, separators=(",", ":"))})


def _newest_first(keys: Sequence[str], table: Table) -> list[str]:
    ordered = [window.key for window in reversed(table.known_windows(keys))]
    return ordered + sorted({*keys} - {*ordered})


def _as_many(windows: Iterable[tuple[str, int]], most_windows: int | None, most_rows: int | None) -> list[str]:
    """The keys of the first windows that one look may read."""
    taken: list[str] = []
    rows = 0
    for key, count in windows:
        rows += count
        if taken and most_rows is not None and rows > most_rows:
            break
        if most_windows is not None and len(taken) >= most_windows:
            break
        taken.append(key)
    return taken


def _findings(schemas: Mapping[str, WindowSchema], table: Table, lake: Lake) -> list[SchemaFinding]:
    gathered: dict[tuple[What, str], tuple[int, set[str], set[str]]] = {}
    for window, what, name, rows, forms in _told(schemas, table):
        total, windows, all_forms = gathered.get((what, name), (0, set(), set()))
        gathered[what, name] = (total + rows, windows | {window}, all_forms | forms)
    places = {
        place: tuple(window.key for window in table.known_windows(windows)) or tuple(sorted(windows))
        for place, (_, windows, _) in gathered.items()
    }
    log, firsts = ChangeLog(table, lake), {of[0] for of in places.values()}
    landed = {key: record.landed_at for key, record in log.records(only=firsts).items()} if firsts else {}
    found = [
        SchemaFinding(
            name=name,
            what=what,
            rows=rows,
            windows=places[what, name],
            since=landed.get(places[what, name][0]),
            line=_line_of_type(name, forms, table) if what == "refused type" else _line(name, forms, table),
        )
        for (what, name), (rows, _, forms) in gathered.items()
    ]
    return sorted(found, key=lambda one: (one.what == "refused type", -one.rows, one.name))


def _told(schemas: Mapping[str, WindowSchema], table: Table) -> Iterator[tuple[str, What, str, int, set[str]]]:
    """The findings of each window about each field: partition key, what, name, rows and forms."""
    for window, schema in schemas.items():
        for name, seen in schema.unknown.items():
            if not table.evolution.ignores(name):
                yield window, _what(name, table), name, seen.rows, seen.forms
        for (name, kind), seen in schema.refused.items():
            # a reason by a type that the column does not have any more is out of date
            if name in table.columns and shown_type(table.type_of(name)) == kind:
                yield window, "refused type", name, seen.rows, seen.forms


def _what(name: str, table: Table) -> What:
    is_filled = name in table.columns and not holds_struct(table.type_of(name))
    return "declared since" if is_filled else "unknown field"


def _line(name: str, forms: Iterable[str], table: Table) -> str:
    if name in table.columns:
        if holds_struct(table.type_of(name)):
            return f"{name} has members that its type does not declare"
        return f"{name} is declared; incload fill {table.name} fills it"
    declared = _declared(forms)
    if re.fullmatch(r"[A-Za-z]\w*", name):
        return f"{name}: {declared} = pa.Field(nullable=True)"
    attribute = re.sub(r"\W", "_", name).strip("_").lower() or "field"
    return f"{attribute}: {declared} = pa.Field(nullable=True, alias={name!r})"


def _line_of_type(name: str, forms: Iterable[str], table: Table) -> str:
    (declared,) = (one for one in table.contract.fields if one.name == name)
    if (wider := wider_type(declared.data_type, forms)) is not None and name not in adaptation_of(table).places:
        line = f"{name}: T.{type(wider).__name__} = pa.Field(nullable={declared.nullable}"
        if isinstance(wider, T.DecimalType):
            line += f', dtype_kwargs={{"precision": {wider.precision}, "scale": {wider.scale}}}'
        line += ")"
        return line if table.evolution.widen == "apply" else f'{line}, with evolution=Evolution(widen="apply")'
    return (
        f"none: {name} stays {shown_type(declared.data_type)}; have the source send that, or the new type under "
        "another name"
    )


def wider_type(kind: T.DataType, forms: Iterable[str]) -> T.DataType | None:
    """The smallest type that a load widens a column to and that also holds values of some forms; None if none does.

    Example:
        >>> wider_type(T.DecimalType(6, 2), ["size 0 5 2"])
        DecimalType(7,2)
    """
    numbers = [form.removeprefix(SIZE).split() for form in forms if form != NO_VALUE and form.startswith(SIZE)]
    if not numbers or len(numbers) < len({*forms} - {NO_VALUE}):
        return None
    sizes = [(int(bits) or 128, int(before), int(after)) for bits, before, after in numbers]
    bits, before, after = (max(each) for each in zip(*sizes, strict=True))
    scale = kind.scale if isinstance(kind, T.DecimalType) else 0
    wider: list[T.DataType] = [integer() for integer, size in INTEGERS.items() if size >= bits and not after]
    wider += [T.DecimalType(digits, scale) for digits in range(before + scale, MOST_DIGITS + 1) if after <= scale]
    # from the type itself on, types are wider than it has to be
    smallest = next((one for one in wider if holds_text(one, kind)), kind)
    return None if smallest == kind else smallest


def _declared(forms: Iterable[str]) -> str:
    found = {*forms} - {NO_VALUE}
    found = {"number"} if found == {"integer", "number"} else found
    return _TYPES.get(next(iter(found)), "T.StringType") if len(found) == 1 else "T.StringType"

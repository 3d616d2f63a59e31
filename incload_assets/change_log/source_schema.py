"""The schema of a source as the rows of a window show it: fields outside the contract, values of another type.

The log keeps fields outside the contract beside each row, as a JSON object, and of a rejected row the reasons. Names,
numbers of rows and the forms of values are taken from both; no value is.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from incload_assets.change_log.change import REJECTED, SKIPPED
from incload_assets.contract.contract import MASK
from incload_assets.platform.lake import data_files, files_in
from incload_assets.platform.lake_rows import dataset_of

NO_VALUE, TEXT, SIZE = "null", "text", "size "
_BITS = (8, 16, 32, 64)
FORMS = (
    ("boolean", r"true|false"),
    ("integer", r"-?(0|[1-9]\d{0,17})"),
    ("number", r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"),
    ("date", r"\d{4}-\d\d-\d\d"),
    ("time", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)"),
)
"""The forms that values are told by, with their patterns; text for any other."""
_REFUSED = re.compile(r"(?:\*\*\*|'(?P<value>.*)') is not (?P<type>[a-z][^']*)", re.DOTALL)
_WHY = re.compile(r"^(date|timestamp\w*) \(.*\)$", re.DOTALL)


@dataclass
class Seen:
    """A field, or a column whose type refused values.

    Args:
        rows: The number of rows with it.
        forms: The forms of its values, see :func:`form_of` and :func:`size_of`.
    """

    rows: int = 0
    forms: set[str] = field(default_factory=set)

    def add(self, form: str) -> None:
        """Counts one row."""
        self.rows += 1
        self.forms.add(form)


@dataclass
class WindowSchema:
    """The schema that the rows of one window show.

    Args:
        unknown: Fields that the contract did not declare when the window was landed, by name.
        refused: Values that the type of a column refused, by column and the type's text.
    """

    unknown: dict[str, Seen] = field(default_factory=dict)
    refused: dict[tuple[str, str], Seen] = field(default_factory=dict)

    def as_plain(self) -> list[Any]:
        """The same as JSON has it; empty if the rows have neither."""
        if not (self.unknown or self.refused):
            return []
        of_fields = [[name, seen.rows, sorted(seen.forms)] for name, seen in self.unknown.items()]
        of_types = [[*place, seen.rows, sorted(seen.forms)] for place, seen in self.refused.items()]
        return [of_fields, of_types]

    @classmethod
    def of_plain(cls, plain: list[Any]) -> "WindowSchema":
        """The schema of which :meth:`as_plain` returned this form."""
        if not plain:
            return cls()
        return cls(
            {name: Seen(rows, {*forms}) for name, rows, forms in plain[0]},
            {(column, kind): Seen(rows, {*forms}) for column, kind, rows, forms in plain[1]},
        )


def files_by_window(log: DeltaTable) -> dict[str, tuple[str, int]]:
    """A digest of the names of each window's files, and the number of their rows, by partition key.

    Files never change, so windows of equal digests have equal rows.

    Args:
        log: A version of a log.
    """
    files = data_files(log)
    names: dict[str, list[str]] = {}
    rows: dict[str, int] = {}
    counts = files["num_records"].to_pylist() if "num_records" in files.schema.names else [0] * files.num_rows
    for window, path, count in zip(
        files["partition._window"].to_pylist(), files["path"].to_pylist(), counts, strict=True
    ):
        names.setdefault(window, []).append(path)
        rows[window] = rows.get(window, 0) + (count or 0)
    digests = {key: blake2b("\n".join(sorted(of)).encode(), digest_size=6).hexdigest() for key, of in names.items()}
    return {key: (digests[key], rows[key]) for key in names}


def schemas_of(log: DeltaTable, windows: Collection[str], columns: Collection[str]) -> dict[str, WindowSchema]:
    """The schemas that the rows of windows show, by partition key; of every window that is asked for.

    Files without rescued fields and rejected rows are left out by the ranges in their footers.

    Args:
        log: A version of a log.
        windows: The partition keys.
        columns: The columns of the contract.
    """
    found = {window: WindowSchema() for window in windows}
    if not found:
        return found
    told = pc.field("_rescued").is_valid() | (pc.field("_kind") == REJECTED)
    batches = dataset_of(log, files_in(data_files(log), "_window", [*found])).to_batches(
        columns=["_window", "_rescued", "_reasons"], filter=told & (pc.field("_kind") != SKIPPED)
    )
    for batch in batches:
        for window, rescued, reasons in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            of = found[window]
            for name, value in json.loads(rescued or "{}").items():
                of.unknown.setdefault(name, Seen()).add(form_of(value))
            for place, value in refused_in(reasons or (), columns).items():
                of.refused.setdefault(place, Seen()).add(size_of(value))
    return found


def refused_in(reasons: Iterable[str], columns: Collection[str]) -> Mapping[tuple[str, str], str]:
    """The values that types refused, by column and the type's text; the mask for values that are not shown.

    Args:
        reasons: The reasons of a rejected row.
        columns: The columns of the contract.

    Example:
        >>> refused_in(["room: 'attic' is not bigint", "name: NULL is not allowed"], ["room", "name"])
        {('room', 'bigint'): 'attic'}
    """
    found = {}
    for reason in reasons:
        for column in columns:
            if reason.startswith(f"{column}: ") and (told := _REFUSED.fullmatch(reason, len(column) + 2)):
                value = told["value"]
                found[column, _WHY.sub(r"\1", told["type"])] = MASK if value is None else value
    return found


def size_of(value: str) -> str:
    """The form of a refused value; of a number the bits of an integer type that holds it, and its digits.

    Example:
        >>> [size_of(value) for value in ("200", "-12.50", "3e9", "soon")]
        ['size 16 3 0', 'size 0 2 1', 'size 64 10 0', 'text']
    """
    if form_of(value) not in ("integer", "number"):
        return form_of(value)
    try:
        _, digits, exponent = Decimal(value).as_tuple()
    except InvalidOperation:  # its exponent is beyond all types
        return TEXT
    known = "".join(map(str, digits)).lstrip("0")
    power = int(exponent) + len(known) - len(known.rstrip("0"))
    before, after = (max(0, size) if known else 0 for size in (len(known.rstrip("0")) + power, -power))
    whole = int(Decimal(value)) if not after and before < 20 else 2**64
    bits = next((bits for bits in _BITS if -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1)), 0)
    return f"{SIZE}{bits} {before} {after}"


def form_of(value: object) -> str:
    """The form of a value, as JSON has it or as its text reads; of no value that is masked.

    Example:
        >>> [form_of(value) for value in (True, "12", 0.5, "2026-01-02", "soon", "")]
        ['boolean', 'integer', 'number', 'date', 'text', 'null']
    """
    if value is None or value == "":
        return NO_VALUE
    if isinstance(value, bool):
        return "boolean"
    text = value if isinstance(value, str) else json.dumps(value)
    if text == MASK:
        return TEXT
    return next((form for form, pattern in FORMS if re.fullmatch(pattern, text)), TEXT)

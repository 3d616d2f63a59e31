"""The trace of a row as a page, and the form that asks for it: what ``incload trace`` says, personal values masked."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.history.row_trace import RowTrace, trace_row
from incload_assets.monitoring.dashboard.drawing import Links, cut, drawn
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked, without_texts
from incload_assets.platform.lake import Lake
from incload_assets.protection.row_key import key_columns, key_of, needed_columns


def fields_of(table: Table, given: Sequence[tuple[str, str]] = ()) -> list[tuple[str, bool, str | None]]:
    """The fields of the form: name, whether it is required, and value; none if the rows have no key.

    ``given`` are the columns and values that were asked for; personal values are not repeated.
    """
    needed, shown = needed_columns(table), {k: v for k, v in given if k not in table.contract.personal}
    return [(name, name in needed, shown.get(name)) for name in (key_columns(table) if needed else ())]


def traced(table: Table, lake: Lake, query: str, links: Links) -> tuple[HTTPStatus, str]:
    """The page with the trace of the row that ``query`` names, or what is wrong with its key, or just the form."""
    status, fault = HTTPStatus.OK, ""
    found: RowTrace | None = None
    given = [(name, value) for name, value in parse_qsl(query) if name and "=" not in name]  # no column has it
    if query:
        try:
            key = key_of(table, (f"{name}={value}" for name, value in given))
        except IncrementalLoadError as error:
            status, fault = HTTPStatus.BAD_REQUEST, masked(str(error))
        else:
            with without_texts(f"{table.name}: the trace of a row"):
                found = trace_row(table, lake, key, values=True)
    return status, drawn(
        "trace",
        now(),
        links,
        title=f"Trace of a row of {table.name}",
        notices=[fault] if fault else (),
        refreshed=False,
        table=table,
        fields=fields_of(table, given),
        found=found,
        present=[*enumerate(found.present, 1)] if found else (),
        as_json=_as_json,
        as_text=_text,
    )


def _as_json(values: Mapping[str, Any]) -> str:
    return cut(json.dumps(values, default=_text, ensure_ascii=False))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)

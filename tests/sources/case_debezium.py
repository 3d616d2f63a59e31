"""Debezium's events, in files."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from incload_assets.assets import Debezium
from tests.sources.case import Row
from tests.sources.case_files import JsonFiles

_SCALE = 18


def as_events(rows: Sequence[Row]) -> bytes:
    """Rows as events without schemas, one per line."""
    return "".join(f"{_event(row)}\n" for row in rows).encode()


def _event(row: Row) -> str:
    op, image = row.get("op", "u"), {name: _encoded(value) for name, value in row.items()}
    source = {"schema": "public", "table": "items", "lsn": 1000 + row["seq"], "sequence": None, "ts_us": 0}
    before, after = (image, None) if op == "d" else (None, image)
    return json.dumps({"before": before, "after": after, "source": source, "op": op}, ensure_ascii=False)


def _encoded(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        unscaled = int(f"{value:.{_SCALE}f}".replace(".", ""))
        size = unscaled.bit_length() // 8 + 1
        return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    return value


class DebeziumFiles(JsonFiles):
    name, written = "debezium events in files", staticmethod(as_events)
    can_fail = False  # as files do

    def source(self) -> Debezium:  # type: ignore[override]
        events = super().source()
        return Debezium(events, table="public.items", keys=["id"], replica_identity="full", decimals="precise")

"""Rows within the records of a change feed, in files."""

import json
from collections.abc import Sequence

from incload_assets.assets import Unwrapped
from tests.sources.case import Row
from tests.sources.case_files import JsonFiles, as_text


def as_records(rows: Sequence[Row]) -> bytes:
    """Rows as records of a feed, one per line; the operation and the sequence are beside the row."""
    return "".join(f"{_record(dict(row))}\n" for row in rows).encode()


def _record(row: Row) -> str:
    beside = {name: row[name] for name in ("op", "seq") if name in row}
    data = {name: value for name, value in row.items() if name not in beside}
    record = {"database": "shop", "data": data, "about": beside, "old": {"name": "before"}}
    return json.dumps(record, ensure_ascii=False, default=as_text)


class UnwrappedFiles(JsonFiles):
    daily = False
    name, written = "rows within records in files", staticmethod(as_records)

    def source(self) -> Unwrapped:  # type: ignore[override]
        return Unwrapped(super().source(), row="data", fields={"op": "about.op", "seq": "about.seq"})

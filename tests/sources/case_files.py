"""Files: JSON lines, CSV, Parquet, ORC and Avro in a local folder, JSON lines on S3."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from incload_assets.assets import Files
from tests.servers.switch import switched
from tests.sources.case import TYPES, Case, Content, Place, Row

_ARROW: Mapping[type, pa.DataType] = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), date: pa.date32(),
    Decimal: pa.decimal128(38, 18), datetime: pa.timestamp("us", "UTC"),
}  # fmt: skip

_AVRO: Mapping[type, object] = {
    str: "string", int: "long", float: "double", bool: "boolean", date: {"type": "int", "logicalType": "date"},
    Decimal: {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
}  # fmt: skip


def as_text(value: object) -> str:
    """A value that is not NULL, as a text file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def as_json(rows: Sequence[Row]) -> bytes:
    """Rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False, default=as_text) + "\n" for row in rows).encode()


def as_csv(rows: Sequence[Row]) -> bytes:
    """Rows as CSV; NULL is nothing at all, and text is quoted."""
    quoted = [
        ['"' + as_text(v).replace('"', '""') + '"' if v is not None else "" for v in _values(row)] for row in rows
    ]
    return "\n".join(map(",".join, [list(TYPES), *quoted, []])).encode()


def as_parquet(rows: Sequence[Row]) -> bytes:
    """Rows as a Parquet file of one schema."""
    file = BytesIO()
    pq.write_table(_as_table(rows), file)
    return file.getvalue()


def as_orc(rows: Sequence[Row]) -> bytes:
    """Rows as an ORC file of one schema."""
    file = BytesIO()
    orc.write_table(_as_table(rows), file)
    return file.getvalue()


def _as_table(rows: Sequence[Row]) -> pa.Table:
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in TYPES.items()])
    return pa.Table.from_pylist([{k: _in_utc(v) for k, v in row.items()} for row in rows], schema)


def as_avro(rows: Sequence[Row]) -> bytes:
    """Rows as an Avro file, whose fields may all be null."""
    members = [{"name": name, "type": ["null", _AVRO[kind]]} for name, kind in TYPES.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": members})
    file = BytesIO()
    records = [dict(zip(TYPES, map(_in_utc, _values(row)), strict=True)) for row in rows]
    fastavro.writer(file, schema, records, sync_marker=bytes(16))  # by default random
    return file.getvalue()


def _in_utc(value: object) -> object:
    """For pyarrow, which takes an instant of any time zone for one of UTC."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _values(row: Row) -> list[object]:
    return [row.get(name) for name in TYPES]


class FilesCase(Case):
    """Two files for each window, one folder per window."""

    extension: ClassVar[str]
    written: ClassVar[Callable[[Sequence[Row]], bytes]]
    named = "folder .*landing|file .*2026-01-0"
    secret = None
    can_refuse = False  # the tests may run as root

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.landing = place.folder / "landing"
        place.patch.setenv("INCLOAD_LANDING", str(self.landing))

    def source(self) -> Files:
        return Files(f"{{landing}}/items/{{window:%Y-%m-%d}}/*.{self.extension}")

    def fill(self, content: Content) -> None:
        for window, rows in content.items():
            self.rewrite(window, rows)

    def rewrite(self, window: str, rows: Sequence[Row]) -> None:
        for name, some in (("a", rows[::2]), ("b", rows[1::2])):
            self.put(f"items/{window}/{name}.{self.extension}", type(self).written(some))

    def put(self, key: str, content: bytes) -> None:
        """Write a file as a whole."""
        path = self.landing / key
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_bytes(content)
        unfinished.rename(path)

    def fail(self) -> None:
        self.landing.rename(self._away)

    def recover(self) -> None:
        self._away.rename(self.landing)

    @property
    def _away(self) -> Path:
        return self.landing.with_name("unmounted")


class JsonFiles(FilesCase):
    name, extension, written = "json files", "json", staticmethod(as_json)


class CsvFiles(FilesCase):
    name, extension, written = "csv files", "csv", staticmethod(as_csv)
    can_fail = False  # files with JSON show it
    daily = False  # the formats have tests of their own


class ParquetFiles(FilesCase):
    name, extension, written = "parquet files", "parquet", staticmethod(as_parquet)
    can_fail = False  # files with JSON show it
    daily = False  # the formats have tests of their own


class OrcFiles(FilesCase):
    name, extension, written = "orc files", "orc", staticmethod(as_orc)
    can_fail = False  # files with JSON show it
    daily = False  # the formats have tests of their own


class AvroFiles(FilesCase):
    name, extension, written = "avro files", "avro", staticmethod(as_avro)
    can_fail = False  # files with JSON show it
    daily = False  # the formats have tests of their own


class S3Files(JsonFiles):
    """By way of a switch, so that the endpoint, which all tests share, can be out of reach."""

    name = "json files on s3"
    named = "s3://|endpoint|bucket"
    secret = "not-to-be-shown"
    can_refuse = True
    can_hang = True
    requests_for_300_windows = 4

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.store = place.server("s3_server")
        port = urlsplit(self.store.url).port
        assert port
        self.switch = place.closing.enter_context(switched(port))
        self.bucket = self.store.new_bucket("conformance", {})
        place.patch.setenv("INCLOAD_LANDING", f"s3://{self.bucket}/in")
        self._use(f"http://127.0.0.1:{self.switch.port}")

    def put(self, key: str, content: bytes) -> None:
        self.store.put(self.bucket, {f"in/{key}": content})

    def fail(self) -> None:
        self.switch.down()

    def fail_amid_reading(self) -> None:
        self.switch.break_off(after=100)

    def hang(self) -> None:
        self.switch.hang()

    def recover(self) -> None:
        self.switch.up()

    def refuse(self) -> None:
        self._use(self.place.server("refusing_s3_server").url, known=False)

    def requests(self) -> int:
        return self.switch.requests

    def _use(self, url: str, *, known: bool = True) -> None:
        """By this session, and those that the test's own runs open: Spark's server is that of all tests."""
        address = {"AWS_ENDPOINT_URL_S3": url}
        self.store.use(self.place.patch, address, known=known)
        for name, value in self.store.conf(address, known=known).items():
            self.place.spark.conf.set(name, value)

"""A topic of a real Kafka whose messages are Avro, with their schemas in a real registry."""

import io
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import fastavro

from incload_assets.assets import Kafka
from incload_assets.declaration.window import window_of
from tests.servers.registry import Registry
from tests.sources.case import TYPES, Content, Place, Row
from tests.sources.case_kafka import KafkaTopic

_TYPES: Mapping[type, Any] = {
    str: "string", int: "long", float: "double", bool: "boolean",
    date: {"type": "int", "logicalType": "date"}, datetime: {"type": "long", "logicalType": "timestamp-micros"},
}  # fmt: skip
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}


def schema_of(row: Row) -> dict[str, Any]:
    """A schema with the fields of a row, each of which may be null."""
    fields = [{"name": name, "type": ["null", _TYPES.get(TYPES[name], _DECIMAL)]} for name in row]
    return {"type": "record", "name": "Row", "namespace": "org.example", "fields": fields}


def encoded(schema: Any, value: Any, number: int | None = None) -> bytes:
    """A value in Avro, behind the frame of a registry if the schema has a number there."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return (b"" if number is None else b"\x00" + number.to_bytes(4, "big")) + buffer.getvalue()


class AvroTopic(KafkaTopic):
    """Each row by a schema with just its fields, so that a window has several."""

    name: ClassVar[str] = "avro"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.registry: Registry = place.server("registry")
        place.patch.setenv("INCLOAD_REGISTRY_MAIN_URL", self.registry.url)

    def source(self) -> Kafka:
        return Kafka("shop", self.topic, format="avro", registry="main")

    def fill(self, content: Content) -> None:
        subject = f"{self.topic}-{uuid.uuid4().hex[:8]}"
        for window in sorted(content):
            start = round(window_of(self.partitions_def, window).start.timestamp() * 1000)
            messages = []
            for number, row in enumerate(content[window]):
                schema = schema_of(row)
                id = self.registry.register(f"{subject}-{'-'.join(row)}", schema)
                in_utc = {k: v.astimezone(UTC) if isinstance(v, datetime) else v for k, v in row.items()}
                messages.append((number % 2, None, encoded(schema, in_utc, id), start + number * 3_600_000))
            self.broker.send(self.topic, messages)

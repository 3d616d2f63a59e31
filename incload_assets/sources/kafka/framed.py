"""Messages framed for a schema registry: a zero byte and the id of a schema in four bytes, then the message itself.

See *Wire format* in Confluent's documentation of its Schema Registry. What follows is Avro, Protobuf or JSON. Avro is
read with its schema, see :mod:`.avro`; Protobuf is not read. JSON can be read without its schema.
"""

from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.declaration.window import Window
from incload_assets.platform.errors import SourceUnreadable

Framed = Literal["json"]
"""What may follow a frame."""

BYTES = 5
"""Length of a frame."""
BINARY = 'not JSON: begins with a zero byte, as Avro and Protobuf of a schema registry; for Avro declare format="avro"'
"""The reason of a message that has no JSON after its frame, or nothing at all."""
OF_JSON = 'framed for a schema registry: a zero byte and the id of a schema before the JSON; declare framed="json"'
"""The reason of a message that has JSON after its frame, which the declaration does not expect."""
BINARY_KEY = "the key of the message begins with a zero byte, and no JSON object follows the frame of a schema registry"
UNREAD_KEY = "the key of the message begins with a zero byte, and is no value of a schema in the schema registry"
UNREAD = "not read as Avro: "
"""Prefix of the reasons of Avro messages that are not read; their payloads are their bytes."""
NO_FRAME = f"{UNREAD}no frame of a schema registry, a zero byte and the id of a schema, before the message"
"""The reason of a message without a frame, where each has one."""
FRAMED = (BINARY, OF_JSON, NO_FRAME)
"""The reasons of messages that are refused for their frames; they have nothing of the message."""

_UNREAD = "messages are JSON unless another format is declared, and Protobuf is not read"
_DECLARE = 'declare Kafka(..., framed="json")'
_DECLARE_AVRO = (
    'if they are Avro, declare Kafka(..., format="avro", registry="NAME") and set INCLOAD_REGISTRY_<NAME>_URL; if they '
    "are Protobuf, have the producer write Avro or JSON"
)


def is_framed(name: str) -> Column:
    """True if the value of a binary column begins as a frame does; false for NULL. No JSON begins with a zero byte."""
    return F.coalesce(F.hex(F.substring(name, 1, 1)) == "00", F.lit(False))


def without_frame(name: str) -> Column:
    """The value of a binary column without its frame, if it has one."""
    rest = F.substring(F.col(name), F.lit(BYTES + 1), F.length(name))
    return F.when(is_framed(name), rest).otherwise(F.col(name))


def why_framed(name: str) -> Column:
    """The reason of a framed value, in a table whose source expects no frames."""
    return F.when(begins_as_json(without_frame(name)), OF_JSON).otherwise(BINARY)


def begins_as_json(value: Column) -> Column:
    """True if a binary value without a frame begins as a JSON object does."""
    return F.trim(value.cast("string")).startswith("{")


def refuse_framed(
    table_name: str, window: Window, topic: str, reason: str, messages: int, first: tuple[str, int]
) -> None:
    """Refuses a window if most messages were rejected as :data:`FRAMED`; ``first``: place and offset of the first."""
    if reason not in FRAMED:
        return
    place = f"the first at offset {first[1]} of partition {first[0].rpartition('/')[2]}"
    if reason == NO_FRAME:
        raise SourceUnreadable(
            f"{table_name} {window.key}: {messages} messages of {topic} have no frame of a schema registry, {place}",
            rule="with a registry each message begins with a zero byte and the id of its schema",
            remedy="drop format and registry if the messages are JSON; give schema= in place of registry= if they are "
            "Avro alone",
        )
    follows, rule, remedy = (
        ("JSON", "messages are JSON, and frames are taken off only where that is declared", _DECLARE)
        if reason == OF_JSON
        else ("no JSON", _UNREAD, _DECLARE_AVRO)
    )
    raise SourceUnreadable(
        f"{table_name} {window.key}: {messages} messages of {topic} are framed for a schema registry, {place}: a zero "
        f"byte and the id of a schema, and then {follows}",
        rule=rule,
        remedy=remedy,
    )

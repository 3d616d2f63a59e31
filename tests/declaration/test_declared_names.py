"""Every name in a declaration is looked up when the code location loads."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.assets import (
    Append,
    Changes,
    Debezium,
    DeleteInsert,
    Files,
    Fold,
    FullReload,
    History,
    Kafka,
    Merge,
    Overwrite,
    QueryByTime,
    Several,
    Snapshot,
    Upstream,
    derived_asset,
)
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import DAYS, DatedItem, Item, declared

FILES = Files("{landing}/items/*.json")
MERGE = Merge()
MORE = Files("{landing}/more/*.json")


class Nested(Item):
    """An item with what has no order."""

    tags: T.ArrayType = pa.Field(dtype_kwargs={"elementType": T.StringType(), "containsNull": True}, nullable=True)
    names: T.MapType = pa.Field(
        dtype_kwargs={"keyType": T.StringType(), "valueType": T.StringType(), "valueContainsNull": True}, nullable=True
    )


class Event(pa.DataFrameModel):
    """A row of a database as its events tell it."""

    id: T.LongType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    day: T.DateType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def model(name: str = "more", kind: Any = T.StringType, base: type = Item, **field: Any) -> type:
    """A model with one more field."""
    return type("Model", (base,), {"__annotations__": {name: kind}, name: pa.Field(**{"nullable": True} | field)})


def configured(base: type = Item, **config: Any) -> type:
    """A model with a configuration."""
    return type("Model", (base,), {"__annotations__": {}, "Config": type("Config", (), config)})


def changes(**given: Any) -> dict[str, Any]:
    return {"contract": Nested, "changes": Changes(**{"keys": ["id"], "sequence_by": ["seq"]} | given)}


def events(changes: Changes | None = None, contract: type = Event, write: Any = MERGE, **source: Any) -> dict[str, Any]:
    made = Debezium(FILES, **{"table": "public.items", "keys": ["id"]} | source)
    return {"source": made, "contract": contract, "changes": changes or made.changes(), "write": write}


def of_event(**given: Any) -> Changes:
    return Changes(**{"keys": ["id"], "sequence_by": ["cdc_sequence"], "delete_when": "cdc_op = 'd'"} | given)


def topic(contract: type = DatedItem, key: str | None = None, **given: Any) -> dict[str, Any]:
    source = Kafka("shop", "items", key=key)
    return {
        "source": source,
        "contract": contract,
        "changes": Changes(**{"keys": ["id"], "sequence_by": ["seq"]} | given),
    }


WRONG: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    # columns of the contract
    "a key in other letters": (lambda: changes(keys=["ID"]), "changes.keys names 'ID', which Nested does not have"),
    "a key without a name": (lambda: changes(keys=[""]), "changes.keys names '', which Nested does not have"),
    "a key twice": (lambda: changes(keys=["id", "id"]), "changes.keys names a column twice"),
    "a key that is an array": (lambda: changes(keys=["tags"]), "changes.keys names 'tags' of type array<string>"),
    "a partition in other letters": (
        lambda: changes() | {"contract": DatedItem, "write": Merge(partition_by="Day")},
        "write.partition_by names 'Day'",
    ),
    "a partition of the loader's": (
        lambda: changes(delete_when="op = 'd'") | {"write": Merge(soft_delete="_bucket", buckets=4)},
        "write.soft_delete is '_bucket'",
    ),
    "a tracked column twice": (
        lambda: changes() | {"write": History(track=["value", "value"])},
        "write.track names a column twice",
    ),
    "a group by an unknown column": (
        lambda: changes(keys=[]) | {"write": DeleteInsert(by=["invoice"])},
        "write.by is ['invoice'], with 'invoice', which Nested does not have",
    ),
    "a group by nothing": (lambda: changes(keys=[]) | {"write": DeleteInsert(by=[])}, "write.by is []"),
    "a sum of an unknown column": (lambda: changes() | {"write": Fold(sums=["qty"])}, "write.sums names 'qty'"),
    "the greatest map": (lambda: changes() | {"write": Fold(maxes=["names"])}, "write.maxes names 'names' of type map"),
    "a scope of an unknown column": (lambda: changes() | {"write": Snapshot(scope="valu = 'x'")}, "write.scope is"),
    "a scope of another case": (lambda: changes() | {"write": Snapshot(scope="Value = 'x'")}, "write.scope is"),
    "a scope of a member": (
        lambda: changes() | {"write": Snapshot(scope="value.x = 'a'")},
        "write.scope is \"value.x = 'a'\", with a member of 'value'",
    ),
    "a scope that is a text": (
        lambda: changes() | {"write": Snapshot(scope="value")},
        "write.scope is 'value', a column that is not boolean",
    ),
    # the contract
    "a mark of personal values in other letters": (
        lambda: {"contract": model(metadata={"Personal": True})},
        "contract Model, field more: metadata has 'Personal'",
    ),
    "a mark of personal values with a typo": (
        lambda: {"contract": model(metadata={"personel": True})},
        "contract Model, field more: metadata has 'personel'",
    ),
    "a mark of personal values that is a text": (
        lambda: {"contract": model(metadata={"personal": "yes"})},
        "contract Model, field more: metadata personal is 'yes'",
    ),
    "a mark of personal values of the model": (
        lambda: {"contract": configured(metadata={"personal": ["value"]})},
        "contract Model: Config.metadata is {'personal': ['value']}",
    ),
    "unique twice": (lambda: {"contract": configured(unique=["id", "id"])}, "contract Model: Config.unique is"),
    "unique by a number": (lambda: {"contract": configured(unique=5)}, "contract Model: Config.unique is 5"),
    "unique by another case": (
        lambda: {"contract": configured(unique=["ID"])},
        "contract Model: Config.unique names 'ID'",
    ),
    "unique by a map": (
        lambda: changes() | {"contract": configured(Nested, unique=["names"])},
        "contract Model: Config.unique names 'names', which is of type map<string,string>",
    ),
    "an array of what no table keeps": (
        lambda: {
            "contract": model(kind=T.ArrayType, dtype_kwargs={"elementType": T.VariantType(), "containsNull": True})
        },
        "contract Model, field more is of type array<variant>",
    ),
    # conditions
    "a name of SQL Server": (
        lambda: changes(delete_when="__$operation = 1"),
        "changes.delete_when is '__$operation = 1', with the name __$operation in it. Rule: a name with characters "
        "other than letters, digits and _ must be quoted with backticks. Remedy: write delete_when='`__$operation`",
    ),
    "a name with a dash": (lambda: changes(delete_when="change-type = 'd'"), 'changes.delete_when is "change-type'),
    "a name of two words": (
        lambda: changes(delete_when="change type = 'd'"),
        "changes.delete_when is \"change type = 'd'\", which cannot be parsed from \"= 'd'\" on",
    ),
    "a condition that ends too soon": (
        lambda: changes(delete_when="op = 'd' AND"),
        "changes.delete_when is \"op = 'd' AND\", which cannot be parsed from 'AND' on",
    ),
    "a quote that is not closed": (
        lambda: changes(delete_when="op = 'd"),
        'changes.delete_when is "op = \'d", in which a quote is not closed',
    ),
    "an empty condition": (lambda: changes(delete_when=" "), "changes.delete_when is ' ', which is empty"),
    "two statements": (
        lambda: changes(delete_when="op = 'd';"),
        "changes.delete_when is \"op = 'd';\", with a semicolon",
    ),
    "an alias": (lambda: changes(delete_when="op d"), "changes.delete_when is 'op d', with the alias 'd'"),
    "one condition for two kinds": (
        lambda: changes(delete_when="op = 'd'", truncate_when="op = 'd'"),
        "changes.truncate_when and changes.delete_when are both",
    ),
    "a field in two spellings": (
        lambda: changes(delete_when="op = 'd' OR OP = 'D'"),
        "conditions of changes name 'op' and 'OP'",
    ),
    # sources
    "the encoding of JSON": (
        lambda: {"source": Files("{landing}/*.json", encoding="utf-16")},
        "source: encoding is 'utf-16'",
    ),
    "the delimiter of Parquet": (
        lambda: {"source": Files("{landing}/*", format="parquet", delimiter=";")},
        "source: delimiter is ';', and the files are parquet",
    ),
    "a database in capitals": (
        lambda: {"source": QueryByTime("Shop", "public.items", modified="updated_at")},
        "source: database is 'Shop'",
    ),
    "a topic that is none": (lambda: {"source": Kafka("shop", "..")}, "source: topic is '..'"),
    "a message key for no column": (lambda: topic(key="item_id"), "source: key is 'item_id', which DatedItem"),
    "an unknown field of messages": (
        lambda: topic(delete_when="kafka_tombston = 'true'"),
        "a condition names 'kafka_tombston', which the source does not have",
    ),
    "a field of messages in other letters": (
        lambda: topic(model("Kafka_Offset", T.LongType), sequence_by=["Kafka_Offset"]),
        "Model names 'Kafka_Offset', which the source does not have. Rule: the source fills the fields kafka_key",
    ),
    "a tombstone that is never told": (
        lambda: topic(delete_when="kafka_tombstone = '1'"),
        "changes.delete_when compares 'kafka_tombstone' with '1'. Rule: it is one of 'true', 'false'",
    ),
    "an offset ordered as a text": (
        lambda: topic(model("kafka_offset"), sequence_by=["kafka_offset"]),
        "changes.sequence_by names 'kafka_offset', which Model has as a string",
    ),
    "a source of another name": (
        lambda: changes(snapshot_when="source_name = 'ful'") | {"source": Several({"full": FILES, "changes": MORE})},
        "changes.snapshot_when compares 'source_name' with 'ful'. Rule: it is one of 'full', 'changes'",
    ),
    "a name of sources with a typo": (
        lambda: changes(snapshot_when="source_nam = 'full'") | {"source": Several({"full": FILES, "changes": MORE})},
        "a condition names 'source_nam', which the source does not have. Rule: the source fills the fields source_name",
    ),
    "a source in a list of names": (
        lambda: (
            changes(snapshot_when="source_name IN ('full', 'Changes')")
            | {"source": Several({"full": FILES, "changes": MORE})}
        ),
        "changes.snapshot_when compares 'source_name' with 'Changes'",
    ),
    "a priority ordered as a text": (
        lambda: {
            "source": Several({"full": FILES, "changes": MORE}),
            "contract": model("source_priority"),
            "changes": Changes(keys=["id"], sequence_by=["seq", "source_priority"]),
        },
        "changes.sequence_by names 'source_priority'",
    ),
    "one source under two names": (
        lambda: {"source": Several({"full": FILES, "changes": FILES})},
        "source: 'full' and 'changes' are both Files(",
    ),
    # events
    "an encoding for no column": (
        lambda: events(encodings={"dy": "date"}),
        "source: encodings names 'dy', which Event",
    ),
    "an encoding in other letters": (lambda: events(encodings={"Day": "date"}), "source: encodings names 'Day'"),
    "an encoding of what no table has": (
        lambda: events(encodings={"cdc_sequence": "date"}),
        "source: encodings names 'cdc_sequence'",
    ),
    "an encoding of another type": (
        lambda: events(encodings={"id": "timestamp[ms]"}),
        "source: the encoding of 'id' is 'timestamp[ms]', and Event declares bigint",
    ),
    "keys that are not the source's": (
        lambda: events(of_event(keys=["value"])),
        "changes.keys is ['value'], and keys of Debezium is ['id']",
    ),
    "more keys than the source's": (lambda: events(of_event(keys=["id", "value"])), "changes.keys is ['id', 'value']"),
    "keys of a history": (lambda: events(of_event(keys=["value"]), write=History()), "changes.keys is ['value']"),
    "keys that events lack": (
        lambda: events(Changes(), keys=["item"], write=Append()),
        "source: keys names 'item', which Event does not have",
    ),
    "a sequence that may be NULL": (
        lambda: events(contract=model("cdc_sequence", base=Event)),
        "Model allows NULL in 'cdc_sequence'",
    ),
    "a sequence that is a number": (
        lambda: events(contract=model("cdc_sequence", T.LongType, base=Event, nullable=False)),
        "Model has 'cdc_sequence' as bigint",
    ),
    "a sequence that deletes lack": (
        lambda: events(of_event(sequence_by=["day"])),
        "changes.sequence_by begins with 'day'. Rule: a delete has only the key",
    ),
    "a field of events with a typo": (
        lambda: events(contract=model("cdc_commited_at", T.TimestampType, base=Event)),
        "Model names 'cdc_commited_at', which the source does not have",
    ),
    "no delete": (lambda: events(of_event(delete_when=None)), "changes.delete_when is None, which does not test"),
    "a delete by another field": (
        lambda: events(of_event(delete_when="op = 'd'")),
        "changes.delete_when is \"op = 'd'\"",
    ),
    "a delete in a capital": (
        lambda: events(of_event(delete_when="cdc_op = 'D'")),
        "changes.delete_when compares 'cdc_op' with 'D'",
    ),
    "another placeholder": (
        lambda: events(of_event(unavailable="?")),
        "changes.unavailable is '?', and unavailable of",
    ),
    "a whole table of events": (
        lambda: events(Changes(), write=FullReload()),
        "write is FullReload(), and source is Debezium",
    ),
    # windows
    "windows that Dagster cannot tell": (
        lambda: {
            "partitions_def": dg.DailyPartitionsDefinition("2026-01-01", minute_offset=30, timezone="Atlantic/Azores")
        },
        "partitions_def is TimeWindowPartitionsDefinition(",
    ),
}


@pytest.mark.parametrize("wrong", WRONG, ids=list(WRONG))
def test_what_cannot_be_right_is_refused_with_its_table_rule_and_remedy(wrong: str) -> None:
    declare, says = WRONG[wrong]
    with pytest.raises(DeclarationError) as refused:
        declared(**declare())
    assert str(refused.value).startswith(f"items: {says}")
    assert refused.value.rule
    assert refused.value.remedy


@pytest.mark.parametrize(
    "right",
    [
        lambda: changes(delete_when="`__$operation` = 1"),
        lambda: changes(delete_when="`change-type` = 'd' AND seq - 1 > 0"),
        lambda: changes(delete_when="op = '#1; $x' -- deleted"),
        lambda: changes(delete_when="exists(tags, tag -> tag = 'gone')"),
        lambda: {"contract": model(metadata={"personal": True, "unit": "EUR"})},
        lambda: topic(model("kafka_offset"), delete_when="kafka_tombstone = 'true'", key="id"),
        lambda: topic(model("kafka_offset", T.DecimalType(20, 0)), sequence_by=["kafka_offset"]),
        lambda: changes(snapshot_when="source_name IN ('full')") | {"source": Several({"full": FILES, "new": MORE})},
        lambda: events(),
        lambda: events(of_event(delete_when="cdc_op = 'd' OR value = 'gone'"), write=History()),
        lambda: events(of_event(sequence_by=["day", "cdc_sequence"]), replica_identity="full"),
        lambda: events(of_event(delete_when="value = 'gone'"), replica_identity="full"),
        lambda: events(Changes(keys=["cdc_sequence"]), write=Append()),
        lambda: events(encodings={"day": "timestamp[ms]", "value": "time[us]"}),
        lambda: events(contract=model("cdc_day", T.DateType, base=Event)),
        lambda: {"source": Files("{landing}/*", delimiter=";", encoding="utf-16")},
    ],
)
def test_what_is_like_it_and_right_is_accepted(right: Callable[[], dict[str, Any]]) -> None:
    declared(**right())


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ([], "of is []"),
        ({"items": 5}, "of is {'items': 5}"),
        ({"items": Upstream(declared(), partition=5)}, "of['items'].partition is 5"),  # type: ignore[arg-type]
        ({"items": Upstream(declared(), partition="Day")}, "of['items']: partition is 'Day'"),
    ],
)
def test_what_a_table_is_derived_from_is_looked_up(of: Any, says: str) -> None:
    with pytest.raises(DeclarationError) as refused:

        @derived_asset(partitions_def=DAYS, of=of, contract=DatedItem, write=Overwrite(partition_by="day"))
        def days(items: Any) -> Any:
            return items

    assert str(refused.value).startswith(f"days: {says}")
    assert refused.value.remedy

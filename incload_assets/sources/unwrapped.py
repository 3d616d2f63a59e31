"""Source of rows that lie within the records of another source: ``{"type": "update", "data": {"id": 1, …}, …}``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.contract.exact_json import loses_digits, marked, unmarked
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.field_types import as_columns, check_types
from incload_assets.declaration.source import PRESENT, SKIPPED, Shows, Source
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.decorator import SourceDecorator
from incload_assets.sources.files.json import json_records
from incload_assets.sources.files.records import TIMES_AS_JSON


@dataclass(frozen=True)
class Unwrapped(SourceDecorator):
    """A source whose records hold the row in a member, beside what they say of it.

    A record without the row is rejected, unless the table's changes skip it. Members of the row that the contract does
    not declare are rescued; what the record says beside the row is read only where ``fields`` names it.

    Args:
        source: Where the records come from; they are JSON objects, as in ``Kafka(…)`` and ``Files("….json")``.
        row: The member with the row, a JSON object; of several, the first that is not NULL.
        fields: Fields of the record beside the row, by the name that the table uses: a member, or a path with dots.

    Example:
        >>> from incload_assets.assets import Kafka
        >>> str(Unwrapped(Kafka("shop", "maxwell"), row="data", fields={"op": "type"}))
        "data of Kafka topic 'maxwell' of shop"
    """

    source: Source
    row: Sequence[str] = ("data",)
    fields: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", as_columns(self.row))
        if isinstance(self.source, Source):
            self.inherit_capabilities()

    def __str__(self) -> str:
        return f"{' or '.join(self.row)} of {self.source}"

    @property
    def shows(self) -> Shows:  # type: ignore[override]
        """The kinds of change of the inner source."""
        return self.source.shows

    def shown(self, keys: Sequence[str]) -> Shows:
        """The kinds of change that the inner source shows of rows with these keys; see :meth:`Source.shown`."""
        return self.source.shown(keys)

    @property
    def is_text(self) -> bool:
        """True if the records' fields are texts, so that the row's are; see :attr:`Source.is_text`."""
        return self.source.is_text

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        beside = ", ".join(f"{name} is its {path}" for name, path in self.fields.items())
        return [
            *self.source.explained(),
            f"The row is the {' or else the '.join(self.row)} of a record{f', and {beside}' if beside else ''}.",
        ]

    def validate(self, table_name: str) -> None:
        """Checks the members' names and the inner source; see :meth:`Source.validate`."""
        if not isinstance(self.source, Source) or isinstance(self.source, SourceDecorator):
            raise DeclarationError(
                f"{table_name}: source: Unwrapped of {self.source!r}",
                rule="it reads records from another source",
                remedy='write Unwrapped(Kafka("shop", "maxwell"), row="data", fields={"op": "type"})',
            )
        check_types(table_name, "source: ", self)
        self.source.validate(table_name)
        if not self.row or not all(map(str.strip, (*self.row, *self.fields, *self.fields.values()))):
            raise DeclarationError(
                f"{table_name}: source: row is {self.row!r} and fields is {dict(self.fields)!r}",
                rule="a row is in a member of the record, and each field has a name and a path",
                remedy='write row="data", fields={"op": "type"}',
            )
        if own := sorted(self.fields.keys() & self.source.own_fields.keys()):
            raise DeclarationError(
                f"{table_name}: source: fields names {', '.join(own)}, which {self.source} fills itself",
                rule="a field has one origin",
                remedy="give the record's field another name",
            )

    def validate_changes(self, declared: Declared) -> None:
        """Checks the changes as the inner source does; see :meth:`Source.validate_changes`."""
        self.source.validate_changes(declared)

    def for_contract(self, contract: Contract) -> "Unwrapped":
        """This source with its inner source adapted; see :meth:`Source.for_contract`."""
        return replace(self, source=self.source.for_contract(contract))

    def of_record(self, fields: Sequence[str]) -> list[str]:
        """The row's members, the first members of paths beside it, and the inner source's own fields."""
        beside = [self.fields[name].partition(".")[0] for name in fields if name in self.fields]
        return list(dict.fromkeys([*self.row, *beside, *(name for name in fields if name in self.source.own_fields)]))

    def parsed(self, records: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The rows within the records; see :meth:`SourceDecorator.parsed`."""
        beside = {name: _at(self.fields[name]) for name in fields if name in self.fields}
        there = [F.when(_has(self.fields[name], PRESENT in records.columns), name) for name in beside]
        own = {name: F.col("_raw").getField(name) for name in fields if name in self.source.own_fields}
        there, beside = [*there, *map(F.lit, own)], beside | own
        of_row = [name for name in fields if name not in beside]
        kept = [name for name in ("_window", SKIPPED) if name in records.columns]
        of_record = records.schema["_raw"].dataType
        assert isinstance(of_record, T.StructType)
        rows = [_as_json(F.col("_raw").getField(name), of_record[name].dataType) for name in self.row]
        texts = records.select(
            F.coalesce(*rows).alias("value"),
            F.struct(F.lit(1), *(value.alias(name) for name, value in beside.items())).alias("__beside"),
            F.array_compact(F.array(*there).cast("array<string>")).alias("__there"),
            F.col("_payload").alias("__payload"),
            F.col("_malformed").alias("__malformed"),
            "_source",
            *kept,
        )
        found = json_records(texts, of_row, "__beside", "__there", "__payload", "__malformed", *kept)
        where = " or ".join(self.row)
        within = F.concat(F.lit(f"{where}: "), F.col("_malformed"))
        fault = F.when(F.col("_payload").isNull(), f"no {where}").otherwise(within)
        # a tombstone of a topic has no payload
        wrong = F.col("_malformed").isNotNull() & F.col("__payload").isNotNull()
        if SKIPPED in kept:
            wrong &= F.col(SKIPPED).isNull()
        members = [F.col("__beside" if name in beside else "_raw").getField(name).alias(name) for name in fields]
        return found.select(
            F.struct(*members).alias("_raw"),
            F.col("__payload").alias("_payload"),
            "_rescued",
            F.coalesce("__malformed", F.when(wrong, fault)).alias("_malformed"),
            "_source",
            F.concat(PRESENT, "__there").alias(PRESENT),
            *kept,
        )


def _as_json(value: Column, kind: T.DataType) -> Column:
    return value if isinstance(kind, T.StringType) else F.to_json(value, TIMES_AS_JSON)


def _at(path: str) -> Column:
    """The text of a member of the record, or of an object within it."""
    name, _, within = path.partition(".")
    return unmarked(_within(name, within, "string")) if within else F.col("_raw").getField(name)


def _has(path: str, varied: bool) -> Column:
    """True if the record has the member, even as NULL; ``varied``: records have different members."""
    name, _, within = path.partition(".")
    has = F.array_contains(PRESENT, name) if varied else F.lit(True)
    return has & _within(name, within, "variant").isNotNull() if within else has


def _within(name: str, path: str, kind: str) -> Column:
    """A value within a member that is a JSON object, with marks on the numbers that would lose digits."""
    text = F.col("_raw").getField(name)
    steps = "".join(f"['{step}']" for step in path.replace("'", "\\'").split("."))
    return F.try_variant_get(F.try_parse_json(marked(text, loses_digits(text))), f"${steps}", kind)

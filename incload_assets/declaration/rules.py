"""Rules of a declaration as a whole; contracts, conditions, sources and write strategies check their own."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta

import dagster as dg
import pyspark.sql.types as T

from incload_assets.contract.contract import Contract
from incload_assets.contract.protection import Hashed, Tokens
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import check_arguments
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.lake import OWN_FOLDERS


def check_retention(table_name: str, retention: timedelta, write: Write) -> None:
    """Refuses a retention for a write strategy whose log cannot be compacted."""
    if not write.compacts:
        raise DeclarationError(
            f"{table_name}: log_retention is {retention}, and write is {write!r}",
            rule="this write strategy makes the table from all changes of a key, so that its log keeps them all",
            remedy="drop log_retention; Merge, Snapshot(delete_missing=True) and FullReload can do with the newest",
        )


_NOT_AS_TEXT: dict[str, tuple[type[T.DataType], ...]] = {
    "changes.sequence_by": (T.BinaryType,),
    "write.partition_by": (T.BinaryType, T.FloatType, T.DoubleType),
}
_UNORDERED = (T.MapType, T.ArrayType, T.StructType, T.VariantType)


NOT_IN_NAMES = " ,;{}()\n\t="
"""Characters that Delta accepts in no name of a column."""


def check_columns(table_name: str, contract: Contract, changes: Changes, write: Write) -> None:
    """Refuses keys, sequence, partition and buckets that do not fit the contract."""
    types = contract.types
    for column in (name for field in contract.schema.fields for name in (field.name, *_members(field.dataType))):
        if bad := sorted(set(column) & set(NOT_IN_NAMES)):
            raise DeclarationError(
                f"{table_name}: {contract.model_name} has a column {column!r}, with {', '.join(map(repr, bad))} in "
                "its name",
                rule="Delta accepts none of ' ,;{}()=', tabs or line ends in column names",
                remedy="rename it in the contract, and fill it in the function from a field of the source",
            )
    partition = (write.partition_by,) if write.partition_by is not None else ()
    named = {"changes.keys": changes.keys, "changes.sequence_by": changes.sequence_by, "write.partition_by": partition}
    for place, columns in named.items():
        needed = {"changes.keys": write.keyed, "changes.sequence_by": write.ordered}.get(place, False)
        if not columns and needed:
            raise DeclarationError(
                f"{table_name}: {place} is empty",
                rule="without a key and a sequence, nothing says which of two changes is newer",
                remedy=f"name columns of the contract, for example {place.split('.')[1]}=[{next(iter(types))!r}]",
            )
        if len(set(columns)) < len(columns):
            raise DeclarationError(
                f"{table_name}: {place} names a column twice: {list(columns)}",
                rule="naming a column twice has no effect",
                remedy="name it once",
            )
        for column in columns:
            if column not in types:
                raise DeclarationError(
                    f"{table_name}: {place} names {column!r}, which {contract.model_name} does not have",
                    rule=f"keys, sequence and partition are columns of the contract ({', '.join(types)})",
                    remedy=f"add {column!r} to {contract.model_name}, or name one of its columns",
                )
            if place != "changes.keys" and isinstance(types[column], _NOT_AS_TEXT[place]):
                raise DeclarationError(
                    f"{table_name}: {place} names {column!r} of type {types[column].simpleString()}",
                    rule="partition and sequence values are kept as text, too, which this type does not survive",
                    remedy="name a column of another type",
                )
            if isinstance(types[column], _UNORDERED):
                raise DeclarationError(
                    f"{table_name}: {place} names {column!r} of type {types[column].simpleString()}",
                    rule="keys, sequence and partition columns hold single values that can be compared",
                    remedy="name a column of a plain type",
                )
    _check_protection(table_name, contract, changes, write)
    if write.buckets is not None:
        _check_buckets(table_name, types, changes, write)
    if write.partition_by in changes.sequence_by:
        raise DeclarationError(
            f"{table_name}: {write.partition_by!r} is both write.partition_by and in changes.sequence_by",
            rule="the partition of a row never changes, its sequence does",
            remedy="partition by a column that is fixed when the row is created",
        )


def _check_protection(table_name: str, contract: Contract, changes: Changes, write: Write) -> None:
    """Refuses protection of columns that decide where a row belongs, unless equal values stay equal."""
    identifying = {*changes.keys, *contract.unique, *write.together(), *filter(None, [write.partition_by])}
    for name, protection in contract.protections.items():
        if name in changes.sequence_by:
            raise DeclarationError(
                f"{table_name}: changes.sequence_by names {name!r}, which is {protection}",
                rule="the order of changes is that of the values themselves",
                remedy="order by another column",
            )
        if name in identifying and not isinstance(protection, Tokens):
            raise DeclarationError(
                f"{table_name}: {name!r} identifies rows, and is {protection}",
                rule="two values that are kept alike would be one; only tokens stay distinct",
                remedy=f'write pa.Field(metadata={{"personal": Hashed(key=...)}}) for {name!r}',
            )
        if name == write.partition_by and not isinstance(protection, Hashed):
            raise DeclarationError(
                f"{table_name}: write.partition_by is {name!r}, which is {protection}",
                rule="partitions are folders, whose names are short; such a token is longer than its value",
                remedy=f'write pa.Field(metadata={{"personal": Hashed(key=...)}}) for {name!r}',
            )


def key_of(name: str | None, key_prefix: str | Sequence[str] | None, function: Callable[..., object]) -> dg.AssetKey:
    """The asset key of a table; refuses one that cannot name a folder, a job and a sensor."""
    check_arguments(function.__name__, name=name, key_prefix=key_prefix)
    prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix or ())
    path = (*prefix, function.__name__ if name is None else name)
    table = "/".join(path)
    if wrong := [part for part in path if not re.fullmatch(r"[A-Za-z0-9_]+", part)]:
        raise DeclarationError(
            f"{table}: its asset key has the part {wrong[0]!r}",
            rule="parts are letters, digits and _, as folders of the lake, a job and a sensor are named after them",
            remedy=f"write another {'name' if wrong[0] == path[-1] else 'key_prefix'}, for example 'orders'",
        )
    if path[0] in OWN_FOLDERS:
        raise DeclarationError(
            f"{table}: its asset key begins with {path[0]!r}",
            rule=f"{', '.join(OWN_FOLDERS)} are folders of the lake in which loads keep what they know of the tables",
            remedy="write another key_prefix or name",
        )
    return dg.AssetKey(path)


def _check_buckets(table_name: str, types: Mapping[str, T.DataType], changes: Changes, write: Write) -> None:
    problem, remedy = f"{table_name}: write.buckets is {write.buckets!r}", "drop buckets"
    if not write.bucketed:
        way = type(write).__name__
        raise DeclarationError(f"{problem}, but {way} has none", rule="Merge and History have buckets", remedy=remedy)
    if write.partition_by is not None:
        raise DeclarationError(
            f"{problem} and write.partition_by is {write.partition_by!r}",
            rule="a table is divided by a column, or, if none says where a key is, by a hash of its keys",
            remedy="drop one of them",
        )
    if inexact := [name for name in changes.keys if isinstance(types[name], T.FloatType | T.DoubleType)]:
        raise DeclarationError(
            f"{problem}, and the key {inexact[0]!r} is of type {types[inexact[0]].simpleString()}",
            rule="equal keys have to have equal hashes, and 0.0 and -0.0 do not",
            remedy=f"{remedy}, or make the key a decimal",
        )


def _members(kind: T.DataType) -> Iterator[str]:
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            yield field.name
            yield from _members(field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _members(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _members(kind.keyType)
        yield from _members(kind.valueType)

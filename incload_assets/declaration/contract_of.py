"""A table's declaration as a described contract, and what is stored of such a table."""

from dataclasses import fields

import pyspark.sql.types as T

from incload_assets.contract.adaptation import CHANGE_FEED, OWN, Adaptation, Stored
from incload_assets.contract.described import ColumnDescription, TableContract
from incload_assets.contract.model import Field
from incload_assets.declaration.eras import windows_text
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET, Write

WINDOWS = f"{OWN}windows"
_STORED = ("partition_by", "buckets", "change_feed")
"""Arguments of write strategies that are in what is stored."""
_COMMENT = {"comment": "Hash of the key, modulo the number of buckets; for pruning files only"}


def contract_of(table: Table) -> TableContract:
    """The described contract of a table."""
    return TableContract(
        columns=tuple(_described(field) for field in table.contract.fields),
        stored=stored_as(table),
        keys=tuple(table.changes.keys),
        sequence_by=tuple(table.changes.sequence_by),
        unique=table.contract.unique,
        write=_text(table.write),
        whole=table.write.is_content(table.changes),
        unset=table.by_column,
        adaptation=adaptation_of(table),
    )


def stored_as(table: Table) -> Stored:
    """The columns, partition columns and properties that Delta stores and existing rows depend on.

    One of these properties is the definition of the windows, because rows of other windows could not be replaced.
    """
    columns = table.schema
    if table.write.divided_into is not None:
        columns = T.StructType([*columns.fields, T.StructField(BUCKET, T.IntegerType(), True, _COMMENT)])
    kept = {f"{OWN}{name}": value for name, value in table.write.kept_as(table.changes).items()}
    if not table.write.supersedes:
        kept[WINDOWS] = windows_text(table.former_partitions, table.partitions_def)
    if table.write.change_feed:
        kept[CHANGE_FEED] = "true"
    return Stored(columns, table.write.stored_by, kept)


def adaptation_of(table: Table) -> Adaptation:
    """The changes that a load may make to the table and its log."""
    write, evolution = table.write, table.evolution
    places = {*filter(None, [write.partition_by]), *(table.changes.keys if write.divided_into is not None else ())}
    return Adaptation(evolution.add == "apply", evolution.widen == "apply", frozenset(places))


def _described(field: Field) -> ColumnDescription:
    # a check's arguments as text are complete; its description for people is cut
    checks = tuple(f"{rule.check} {rule.arguments}" for rule in field.rules)
    personal = repr(field.protection) if field.protection is not None else field.personal
    return ColumnDescription(field.name, field.data_type, field.nullable, personal, checks)


def _text(write: Write) -> str:
    """A write strategy with the arguments that differ from their defaults, for example ``Merge(partial=True)``."""
    names = [one.name for one in fields(write) if getattr(write, one.name) != one.default and one.name not in _STORED]
    given = {name: getattr(write, name) for name in names}
    return f"{type(write).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(given.items()))})"

"""The rows of several sources as those of one, which tell which source each is from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.contract.conversion import bytes_faults, text_for
from incload_assets.declaration.source import EXTRACTED_COLUMNS, PRESENT, SKIPPED
from incload_assets.delta.sql import union_of

NAME, PRIORITY, SEPARATOR = "source_name", "source_priority", ": "


@dataclass(frozen=True)
class SourceRows:
    """The rows of one of the sources.

    Args:
        name: Of the source.
        priority: As the field ``source_priority`` tells it.
        rows: As :meth:`Source.extract_windows` gives them.
    """

    name: str
    priority: int
    rows: DataFrame


def together(parts: Sequence[SourceRows], fields: Sequence[str], contract: Contract | None) -> DataFrame:
    """The rows of all of them; a field that they have in different types is text.

    Args:
        parts: At least one.
        fields: That ``_raw`` is to have.
        contract: Of the table; None where it is not known.
    """
    types = [_types(part.rows) for part in parts]
    targets = contract.types if contract else {}
    alike = {name: len({str(of.get(name)) for of in types}) == 1 for name in fields}
    columns = [*EXTRACTED_COLUMNS, PRESENT, SKIPPED, "_window"]
    made = (_told(part, fields, its, alike, targets).select(*columns) for part, its in zip(parts, types, strict=True))
    return union_of(made)


def source_of(file: Column) -> Column:
    """The name of the source in the place of a row."""
    return F.substring_index(file, SEPARATOR, 1)


def _types(frame: DataFrame) -> dict[str, T.DataType]:
    raw = frame.schema["_raw"].dataType
    assert isinstance(raw, T.StructType)
    return {field.name: field.dataType for field in raw.fields}


def _told(
    part: SourceRows,
    fields: Sequence[str],
    types: Mapping[str, T.DataType],
    alike: Mapping[str, bool],
    targets: Mapping[str, T.DataType],
) -> DataFrame:
    """One source's rows with the fields and places that tell which one it is, in types that all sources share."""
    frame, own = part.rows, {NAME: F.lit(part.name), PRIORITY: F.lit(part.priority)}

    def value(name: str) -> Column:
        given = F.col("_raw").getField(name)
        return own[name] if name in own else given if alike[name] else text_for(given, types[name], targets.get(name))

    named = F.col(PRESENT) if PRESENT in frame.columns else F.array(*map(F.lit, types)).cast("array<string>")
    present = F.concat(named, F.array(*(F.lit(name) for name in fields if name in own)).cast("array<string>"))
    skipped = F.col(SKIPPED) if SKIPPED in frame.columns else F.lit(None).cast("string")
    faults = (
        fault
        for name, kind in types.items()
        if not alike[name]
        for fault in bytes_faults(name, F.col("_raw").getField(name), kind, targets.get(name))
    )
    place = F.concat_ws(SEPARATOR, own[NAME], F.col("_source").getField("file"))
    return frame.withColumns(
        {
            "_raw": F.struct(*(value(name).alias(name) for name in fields)),
            "_source": F.col("_source").withField("file", place),
            "_malformed": F.coalesce("_malformed", *faults),
            PRESENT: present,
            SKIPPED: skipped,
        }
    )

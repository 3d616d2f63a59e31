"""Union of the rows of several sources, labelled with the source that each row is from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.contract.conversion import bytes_faults, text_for
from incload_assets.declaration.source import EXTRACTED_COLUMNS, PRESENT, SKIPPED
from incload_assets.platform.sql import union_of

NAME, PRIORITY, SEPARATOR = "source_name", "source_priority", ": "


@dataclass(frozen=True)
class SourceRows:
    """The rows of one source, as :meth:`Source.extract_windows` returns them; ``priority`` is ``source_priority``."""

    name: str
    priority: int
    rows: DataFrame


def together(parts: Sequence[SourceRows], fields: Sequence[str], contract: Contract | None) -> DataFrame:
    """The rows of one or more sources; a field that they have in different types becomes a string."""
    types = [_types(part.rows) for part in parts]
    targets = contract.types if contract else {}
    alike = {name: len({str(of.get(name)) for of in types}) == 1 for name in fields}
    columns = [*EXTRACTED_COLUMNS, PRESENT, SKIPPED, "_window"]
    labelled = (
        _labelled(part, fields, its, alike, targets).select(*columns) for part, its in zip(parts, types, strict=True)
    )
    return union_of(labelled)


def source_of(file: Column) -> Column:
    """The name of the source at the beginning of a row's ``_source.file``."""
    return F.substring_index(file, SEPARATOR, 1)


def _types(frame: DataFrame) -> dict[str, T.DataType]:
    raw = frame.schema["_raw"].dataType
    assert isinstance(raw, T.StructType)
    return {field.name: field.dataType for field in raw.fields}


def _labelled(
    part: SourceRows,
    fields: Sequence[str],
    types: Mapping[str, T.DataType],
    alike: Mapping[str, bool],
    targets: Mapping[str, T.DataType],
) -> DataFrame:
    """The rows of one source with name, priority and labelled places, in types that all sources share."""
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

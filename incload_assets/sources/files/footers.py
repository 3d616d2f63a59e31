"""Files with their columns in a footer, Parquet and ORC, in groups, because Spark uses one file's schema for all."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import NamedTuple, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.sql import quoted
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.errors import file_error
from incload_assets.sources.files.parquet_types import Rendering, is_text, kinds_in, unreadable, with_times
from incload_assets.sources.files.records import Records, in_json, source_column
from incload_assets.sources.files.template import Template

Schema = tuple[tuple[str, pa.DataType], ...]
"""Columns by name, sorted."""


class Footer(NamedTuple):
    """The columns of a file, and what else files must have in common to be read together."""

    columns: Schema
    more: tuple[tuple[str, str], ...] = ()


def records_by_footer(
    table_name: str,
    template: Template,
    paths: Sequence[str],
    columns: FileColumns,
    footer_of: Callable[[str], Footer],
    read_group: Callable[[Footer, Sequence[str]], Records],
) -> list[Records]:
    """The records of files, one group per footer; a file without the columns of its table is refused."""
    groups: dict[Footer, list[str]] = {}
    with ThreadPoolExecutor(16) as readers:
        footers = list(readers.map(footer_of, paths))
    for path, footer in zip(paths, footers, strict=True):
        columns.check(f"the file {template.name_of(path)}", dict(footer.columns))
        groups.setdefault(footer, []).append(path)
    records = []
    for footer, found in groups.items():
        try:
            records.append(read_group(footer, found))
        except AnalysisException as error:
            raise file_error(table_name, str(error)) or SourceUnreadable(
                f"{table_name}: Spark cannot read a type in {template.name_of(found[0])}"
                f" ({error.getCondition()}: {error.getMessageParameters()})",
                rule="every column of a file is read, undeclared columns go to _rescued",
                remedy="write the column with another type, for example strings",
            ) from error
    return records


def checked(table_name: str, key: str, fields: Iterable[pa.Field]) -> Schema:
    """The columns of a file; refuses names that differ only in case, and types that Spark cannot read."""
    columns = [(field.name, field.type) for field in fields]
    names = Counter(name.casefold() for name, _ in columns)
    for name, kind in columns:
        if names[name.casefold()] > 1:
            raise SourceUnreadable(
                f"{table_name}: the file {key} has several columns {name!r} that differ at most in case",
                rule="Spark does not distinguish such columns of Parquet and ORC files",
                remedy="write the file with different names",
            )
        for why, instead in filter(None, map(unreadable, kinds_in(kind))):
            raise SourceUnreadable(
                f"{table_name}: the column {name!r} in {key} is {kind}",
                rule=why,
                remedy=f"write the file with {instead}",
            )
    return tuple(sorted(columns, key=itemgetter(0)))


def lines_of(frame: DataFrame, schema: Schema, fields: Sequence[str], *about: Column, time: Rendering) -> DataFrame:
    """The rows of a group with ``_raw``, ``_payload``, ``_rescued``, ``_malformed`` and what is ``about`` them."""
    values = {name: with_times(F.col(quoted(name)), kind, time) for name, kind in schema}
    shown = {name: with_times(F.col(quoted(name)), kind, time, iso=True) for name, kind in schema}
    texts = [name for name, kind in schema if is_text(kind)]
    # writers of these formats need not check UTF-8, but other readers of the table would refuse invalid text
    wrong = (F.when(~F.is_valid_utf8(values[name]), F.lit(f"{name}: not valid UTF-8")) for name in texts)
    malformed = F.coalesce(F.lit(None).cast("string"), *wrong)
    valid = {name: F.make_valid_utf8(values[name]) for name in texts}
    return frame.select(
        F.struct(*((values | valid).get(field, F.lit(None)).alias(field) for field in fields)).alias("_raw"),
        *in_json(shown | valid, fields),
        malformed.alias("_malformed"),
        *about,
    )


def records_of(lines: DataFrame, schema: Schema, fields: Sequence[str]) -> Records:
    """The records of :func:`lines_of` with ``__file``, ``__block`` and ``__row``."""
    raw, names = cast(StructType, lines.schema["_raw"].dataType), dict(schema)
    return Records(
        lines.select("_raw", "_payload", "_rescued", "_malformed", source_column()),
        [raw[field].dataType if field in names else None for field in fields],
    )

"""Rows of Delta tables by values of their columns, read without Spark.

A dataset as deltalake makes it treats the statistics of each file as conditions that its rows meet, and pyarrow leaves
out files that contradict them. Some statistics are no such conditions: where a file has no range, its rows are compared
with NULL; NaN is in no range; texts with characters beyond U+FFFF, escaped in JSON, are misread; and instants in
checkpoints may be. Here a range leaves out a file only if it proves that the file has no such row.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from deltalake import DeltaTable

from incload_assets.platform.lake import data_files

Among = Mapping[str, Collection[Any]]
"""Values that are wanted, by column; None is NULL."""

_EXACT = (pa.types.is_integer, pa.types.is_date32, pa.types.is_string)
"""Types whose ranges can be compared. Ranges of decimals and floats are inexact or lack NaN."""
_ALWAYS = pc.scalar(True)
_MISREAD = r"[\x{10000}-\x{10FFFF}]"
"""Characters that are two escapes in JSON, which deltalake reads as another character."""


def rows_where(
    delta: DeltaTable,
    among: Among | None = None,
    where: pc.Expression | None = None,
    *,
    columns: Sequence[str] | None = None,
    files: pa.Table | None = None,
    most: int | None = None,
) -> pa.Table:
    """The rows of a Delta table that meet conditions, whichever software wrote its files.

    In ``among``, a column that the table lacks is NULL, NaN equals NaN, and 0.0 equals -0.0; ``where`` must not depend
    on NaN. ``columns`` that the table lacks are left out. From ``most`` rows on no more are read. None: all.
    """
    among = among or {}
    known = data_files(delta) if files is None else files
    dataset = dataset_of(delta, files_with(known, among))
    schema = dataset.schema
    wanted = [_is_among(schema, name, values) for name, values in among.items()]
    condition = reduce(and_, [*wanted, *([] if where is None else [where])], _ALWAYS)
    names = [name for name in dict.fromkeys(columns or schema.names) if name in schema.names]
    try:
        if not any(map(_is_nan, (value for values in among.values() for value in values))):
            if most is not None:
                return dataset.head(most, columns=names, filter=condition)
            return dataset.to_table(columns=names, filter=condition)
    except pa.ArrowNotImplementedError:
        pass  # other writers declare texts in their files as views, with which pyarrow's scan compares no text
    # a scan would also leave out parts of files, by the ranges in their footers, which lack NaN
    found = (pa.Table.from_batches([batch]).filter(condition).select(names) for batch in dataset.to_batches())
    return pa.concat_tables([schema.empty_table().select(names), *found]).slice(0, most)


def dataset_of(delta: DeltaTable, files: pa.Table) -> pads.FileSystemDataset:
    """Some files of a table, without their statistics; raises DeltaProtocolError if only Spark can read the table."""
    options = pads.ParquetReadOptions(coerce_int96_timestamp_unit="us")  # instants of far years
    empty = delta.to_pyarrow_dataset(file_pruning_predicate="false", parquet_read_options=options)
    places = [name for name in files.schema.names if name.startswith("partition.")]
    fields = [pc.field(name.removeprefix("partition.")) for name in places]
    fragments = []
    for path, *values in zip(files["path"].to_pylist(), *(files[name] for name in places), strict=True):
        pairs = zip(fields, values, strict=True)
        place = reduce(and_, (field == value if value.is_valid else field.is_null() for field, value in pairs), _ALWAYS)
        fragments.append(empty.format.make_fragment(unquote(path), empty.filesystem, place))
    return pads.FileSystemDataset(fragments, empty.schema, empty.format, empty.filesystem)


def files_with(files: pa.Table, among: Among) -> pa.Table:
    """The files without those that provably have no row with some values."""
    for name, values in among.items():
        low, high = _range(files, name)
        if low is None or high is None or not values or None in values:
            continue
        least, most = (pa.scalar(end, low.type) for end in (min(values), max(values)))
        outside = pc.or_kleene(pc.less(_proven(high), least), pc.greater(_proven(low), most))
        files = files.filter(pc.invert(pc.fill_null(outside, False)))
    return files


def _range(files: pa.Table, name: str) -> tuple[pa.ChunkedArray | None, pa.ChunkedArray | None]:
    """The least and the greatest values of a column in each file; None where they cannot be compared."""
    of_partition = f"partition.{name}" in files.schema.names
    ends = [f"partition.{name}"] * 2 if of_partition else [f"min.{name}", f"max.{name}"]
    known = [files[end] for end in ends if end in files.schema.names]
    exact = len(known) == 2 and all(any(is_exact(end.type) for is_exact in _EXACT) for end in known)
    return (known[0], known[1]) if exact else (None, None)


def _proven(ends: pa.ChunkedArray) -> pa.ChunkedArray:
    """The ends of ranges without those that are perhaps misread."""
    if not pa.types.is_string(ends.type):
        return ends
    return pc.if_else(pc.match_substring_regex(ends, _MISREAD), None, ends)


def _is_among(schema: pa.Schema, name: str, values: Collection[Any]) -> pc.Expression:
    if name not in schema.names:
        return pc.scalar(None in values)
    field, kind = pc.field(name), schema.field(name).type
    plain = [value for value in values if value is not None and not _is_nan(value)]
    found = [field.is_null()] if None in values else []
    found += [field.is_nan()] if any(map(_is_nan, values)) else []
    if pa.types.is_floating(kind):  # by membership 0.0 and -0.0 differ
        found += [field == pa.scalar(value, kind) for value in plain]
    else:
        found.append(field.isin(pa.array(plain, kind)))
    return reduce(or_, found, pc.scalar(False))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)

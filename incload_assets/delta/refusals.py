"""Refusals of Delta: statements that a table's own properties or columns forbid, as errors that say what to do."""

import re
from collections.abc import Mapping

from pyspark.errors import PySparkException

from incload_assets.platform.errors import SchemaMismatch

_REFUSED = re.compile(r"\[(DELTA_[A-Z_]+)[^\]]*\]\s*([^\n]*)")
_RESTORE = "restore the type in the contract, or add the new type under another column name"
_APPEND_ONLY = (
    "a type is widened by a rewrite of the table, which its property delta.appendOnly forbids; nothing was changed",
    "set 'delta.appendOnly' = 'false' with ALTER TABLE … SET TBLPROPERTIES until a load has widened the type, or "
    f"{_RESTORE}",
)
_GENERATED = (
    "a generated column has the type of its expression, which becomes wider with the column that it is made of; "
    "nothing was changed",
    f"drop the generated column from the table, or {_RESTORE}",
)
_OTHER = ("a type is widened by a rewrite of the table, which Delta has to allow; nothing was changed", _RESTORE)


def refused_widening(table_name: str, uri: str, widened: Mapping[str, str], error: PySparkException) -> SchemaMismatch:
    """The refusal of a rewrite with wider types, as an error of this package.

    Args:
        table_name: The table's name.
        uri: URI of the table.
        widened: The columns, each with its present and its wider type as text.
        error: What Spark raised.

    Raises:
        PySparkException: ``error``, if it is no refusal by Delta.
    """
    if (found := _REFUSED.search(str(error))) is None:
        raise error
    condition, said = found.groups()
    if condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY":
        rule, remedy = _APPEND_ONLY
        said = "this table may only be appended to"  # Delta's own remedy names a table "null"
    else:
        rule, remedy = _GENERATED if condition.startswith("DELTA_GENERATED_COLUMNS") else _OTHER
    columns = ", ".join(f"{name!r} of {uri} ({types})" for name, types in widened.items())
    return SchemaMismatch(f"{table_name}: Delta refuses to widen {columns}: {said.strip()}", rule=rule, remedy=remedy)

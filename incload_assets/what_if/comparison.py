"""Compares a table with its shadow, key by key and column by column; few masked rows are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import any_of, col, quoted, row_id_sql

SAMPLES = 5
"""Most differing rows that are shown."""
_LONGEST = 40
"""Longest value that is shown, in characters."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a table and its shadow differ, by numbers of rows; pairs are of the table and of the shadow.

    Args:
        different: Rows that both have, with other values.
        by_column: Rows that differ in a column, by its name; columns without differences are left out.
        columns: Columns that only the table has, and that only the shadow has.
        samples: A few differing rows in words, personal columns masked.
    """

    rows: tuple[int, int]
    only_table: int
    only_shadow: int
    different: int
    by_column: Mapping[str, int] = field(default_factory=dict)
    columns: tuple[Sequence[str], Sequence[str]] = ((), ())
    samples: Sequence[str] = ()

    @property
    def equal(self) -> bool:
        """True if table and shadow have the same rows."""
        return not (self.only_table or self.only_shadow or self.different)


def compare(load: LoadContext, version: int, shadow: str) -> Comparison:
    """Compares a version of the table with the shadow at a URI.

    Rows are matched by the columns that identify one, NULLs being equal; without such columns by their whole content,
    each as often as it occurs.
    """
    table = load.table
    there = load.spark.read.format("delta").option("versionAsOf", version).load(load.lake.spark_uri(load.uri))
    here = load.spark.read.format("delta").load(load.lake.spark_uri(shadow))
    if (held := table.write.open_rows) is not None:  # only the table has what was believed before the shadow was made
        there, here = (rows.filter(col(held)).drop(*table.write.instants) for rows in (there, here))
    common = [name for name in here.columns if name in there.columns and not name.startswith("_")]
    columns = (
        [name for name in there.columns if name not in here.columns and not name.startswith("_")],
        [name for name in here.columns if name not in there.columns and not name.startswith("_")],
    )
    keys, condition = table.write.unique_rows(table.changes)
    if not table.write.keyed or not keys or condition is not None:
        return _by_content(table, there, here, common, columns)
    return _by_key(table, there, here, table.identity, common, columns)


def _by_key(
    table: Table,
    there: DataFrame,
    here: DataFrame,
    keys: Sequence[str],
    common: Sequence[str],
    columns: tuple[Sequence[str], Sequence[str]],
) -> Comparison:
    mark = "_incload_there"
    t, s = there.withColumn(mark, F.lit(True)).alias("t"), here.withColumn(mark, F.lit(True)).alias("s")
    same = F.expr(" AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in keys))
    both = t.join(s, same, "full")
    in_table, in_shadow = F.col(f"t.{mark}").isNotNull(), F.col(f"s.{mark}").isNotNull()
    values = [name for name in common if name not in keys]
    differs = {name: in_table & in_shadow & ~_text(name, "t").eqNullSafe(_text(name, "s")) for name in values}
    different = any_of(differs.values())
    sums = both.agg(
        F.count(F.when(in_table, 1)).alias("table"),
        F.count(F.when(in_shadow, 1)).alias("shadow"),
        F.count(F.when(~in_shadow, 1)).alias("only table"),
        F.count(F.when(~in_table, 1)).alias("only shadow"),
        F.count(F.when(different, 1)).alias("different"),
        *(F.count(F.when(condition, 1)).alias(f"of {name}") for name, condition in differs.items()),
    ).first()
    assert sums is not None
    said = F.when(~in_shadow, F.lit("only in the table")).when(~in_table, F.lit("only in the shadow"))
    changes = [
        F.when(condition, F.concat(F.lit(f"{name} "), _shown(table, name, "t"), F.lit(" → "), _shown(table, name, "s")))
        for name, condition in differs.items()
    ]
    text = F.coalesce(said, F.array_join(F.array_compact(F.array(*changes)), ", ") if changes else F.lit(""))
    names = [
        F.concat(F.lit(f"{name}="), F.when(in_table, _shown(table, name, "t")).otherwise(_shown(table, name, "s")))
        for name in keys
    ]
    key = F.concat_ws(" ", *names)
    some = both.filter(~in_shadow | ~in_table | different).select(F.concat(key, F.lit(": "), text).alias("text"))
    equal = not (sums["only table"] or sums["only shadow"] or sums["different"])
    return Comparison(
        rows=(sums["table"], sums["shadow"]),
        only_table=sums["only table"],
        only_shadow=sums["only shadow"],
        different=sums["different"],
        by_column={name: sums[f"of {name}"] for name in values if sums[f"of {name}"]},
        columns=columns,
        samples=[] if equal else [row["text"] for row in some.head(SAMPLES)],
    )


def _by_content(
    table: Table,
    there: DataFrame,
    here: DataFrame,
    common: Sequence[str],
    columns: tuple[Sequence[str], Sequence[str]],
) -> Comparison:
    def counted(rows: DataFrame, sign: int) -> DataFrame:
        return rows.select(
            F.expr(row_id_sql(common)).alias("_id"),
            F.struct(*map(col, common)).alias("_row"),
            F.lit(sign).alias("_sign"),
        )

    groups = (
        counted(there, 1)
        .unionByName(counted(here, -1))
        .groupBy("_id")
        .agg(
            F.sum("_sign").alias("more"),
            F.count(F.when(F.col("_sign") == 1, 1)).alias("table"),
            F.count(F.when(F.col("_sign") == -1, 1)).alias("shadow"),
            F.any_value("_row").alias("_row"),
        )
    )
    sums = groups.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("table", "shadow")),
        F.coalesce(F.sum(F.greatest("more", F.lit(0))), F.lit(0)).alias("only table"),
        F.coalesce(F.sum(F.greatest(-F.col("more"), F.lit(0))), F.lit(0)).alias("only shadow"),
    ).first()
    assert sums is not None
    where = F.when(F.col("more") > 0, "only in the table").otherwise("only in the shadow")
    row = F.concat_ws(" ", *(F.concat(F.lit(f"{name}="), _shown(table, name, "_row")) for name in common))
    some = groups.filter("more <> 0").select(F.concat(row, F.lit(": "), where).alias("text"))
    equal = not (sums["only table"] or sums["only shadow"])
    return Comparison(
        rows=(sums["table"], sums["shadow"]),
        only_table=sums["only table"],
        only_shadow=sums["only shadow"],
        different=0,
        columns=columns,
        samples=[] if equal else [found["text"] for found in some.head(SAMPLES)],
    )


def _text(name: str, alias: str) -> Column:
    """A value as text, so that values of different or incomparable types can be compared."""
    return F.to_json(F.struct(col(name, alias).alias("v")))


def _shown(table: Table, name: str, alias: str) -> Column:
    """A value for people: as JSON, shortened; personal ones masked."""
    if name in table.contract.personal:
        return F.lit(MASK)
    value = F.regexp_extract(_text(name, alias), r'^\{"v":(.*)\}$', 1)
    text = F.when(col(name, alias).isNull(), F.lit("NULL")).otherwise(value)
    return F.when(F.length(text) > _LONGEST, F.concat(F.substring(text, 1, _LONGEST), F.lit("…"))).otherwise(text)

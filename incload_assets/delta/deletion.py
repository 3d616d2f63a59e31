"""Deletion of rows of a Delta table that are named by other rows."""

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incload_assets.delta.session import named, settings
from incload_assets.delta.tables import lost_the_race
from incload_assets.platform.sql import col, quoted


def delete_rows(spark: SparkSession, table: str, rows: DataFrame, columns: Sequence[str], *, note: str) -> bool:
    """Deletes the rows of a Delta table that equal one of the given rows in some columns.

    Args:
        spark: The session.
        table: The table's name in SQL.
        rows: The given rows.
        columns: The columns to compare; NULLs are equal.
        note: The message of the commit in the table's history.

    Returns:
        Whether it was committed; False if another writer committed first.
    """
    same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in dict.fromkeys(columns))
    given = rows.select(*map(col, dict.fromkeys(columns))).distinct()
    with named(given, "_given") as these, settings(spark, {"spark.databricks.delta.commitInfo.userMetadata": note}):
        try:
            spark.sql(f"MERGE INTO {table} AS t USING {these} AS s ON {same} WHEN MATCHED THEN DELETE").first()
        except PySparkException as error:
            if not lost_the_race(error):
                raise
            return False
    return True

"""Required fields: a record of the source without one of them cannot become a row of the table.

A contract also declares columns that the author's function computes, and the function may replace a field that the
source lacks. So the function is applied to a frame without rows, whose plan Spark only analyses: columns that it passes
through unchanged keep the metadata that they were given.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.ingest.function_output import RECORD

_GIVEN = "incload.given"


def required_fields(spark: SparkSession, table: Table) -> frozenset[str]:
    """Key, sequence and fields that are not nullable, without fields that the table's function computes.

    If a change may be a delete, or leave columns unset, only key and sequence are required: it has little more.
    """
    changes = table.changes
    wanted = {*(() if changes.truncate_when else table.identity), *(changes.sequence_by if table.write.ordered else ())}
    if not (changes.delete_when or changes.truncate_when or table.by_column):
        wanted |= {field.name for field in table.contract.fields if not field.nullable}
    nothing = F.lit(None).cast("string")
    given = spark.range(0).select(
        *(
            F.lit(None).cast(field.data_type).alias(field.name, metadata={_GIVEN: field.name})
            for field in table.contract.fields
        ),
        *(nothing.alias(name) for name in table.control_fields),
        F.struct(nothing.alias("_payload"), nothing.alias("_rescued")).alias(RECORD),
    )
    try:
        returned = table.function(given).schema.fields
    except AnalysisException:  # the error is reported when the rows are validated
        return frozenset()
    return frozenset(field.name for field in returned if (field.metadata or {}).get(_GIVEN) == field.name) & wanted

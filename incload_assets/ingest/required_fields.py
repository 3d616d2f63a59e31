"""The fields without which no record of a source can become a row of its table.

A contract also declares columns that the author's function makes, and a field that a source lacks may be made up for
there. So the function is asked: what it leaves as it is bears the metadata that it was given, in the plan of a frame
without rows, which Spark only analyses.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.ingest.validate import RECORD

_GIVEN = "incload.given"


def required_fields(spark: SparkSession, table: Table) -> frozenset[str]:
    """Key, sequence, and what is not nullable, unless the table's function has to do with it.

    Where a change may be a delete, or leave columns as they are, only key and sequence: it has little more.

    Args:
        spark: A session.
        table: The declaration.
    """
    changes = table.changes
    asked = {*(() if changes.truncate_when else table.identity), *(changes.sequence_by if table.write.ordered else ())}
    if not (changes.delete_when or changes.truncate_when or table.by_column):
        asked |= {field.name for field in table.contract.fields if not field.nullable}
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
    except AnalysisException:  # it is told when the rows are validated
        return frozenset()
    return frozenset(field.name for field in returned if (field.metadata or {}).get(_GIVEN) == field.name) & asked

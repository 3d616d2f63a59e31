"""Marks records that people accepted although they break checks of the contract, wherever rows are validated.

So an accepted row stays in the table when its window is loaded again, as long as the source has the same record.
"""

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.decisions import rejected_row_id

ACCEPTED = "_accepted"
"""The column that says whether a record may break checks of the contract; only where some may."""
_ROW = "_row_id"


def marked_accepted(extracted: DataFrame, accepted: Collection[str]) -> DataFrame:
    """The records, with the column ``_accepted`` if ``accepted`` has identifiers of accepted rows of their windows."""
    if not accepted:
        return extracted
    ids = extracted.sparkSession.createDataFrame([(row,) for row in accepted], f"{_ROW} string")
    marks = F.broadcast(ids.withColumn(ACCEPTED, F.lit(True)))
    found = extracted.withColumn(_ROW, rejected_row_id()).join(marks, _ROW, "left").drop(_ROW)
    return found.withColumn(ACCEPTED, F.coalesce(F.col(ACCEPTED), F.lit(False)))

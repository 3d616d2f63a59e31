"""Inference from a place to a declaration."""

from dataclasses import replace

from pyspark.sql import SparkSession

from incload_assets.declaration.window import now
from incload_assets.inference.database import origin_of_table
from incload_assets.inference.files import origin_of_files
from incload_assets.inference.inferred import Inferred, inferred, sets_to_count
from incload_assets.inference.measure import counts_of, kept, sample_of
from incload_assets.inference.origin import Origin
from incload_assets.inference.places import FilesAt, Place, TableAt, TopicAt
from incload_assets.inference.topic import origin_of_topic


def infer(spark: SparkSession, table: str, place: Place) -> Inferred:
    """The declaration of a table whose rows are at a place, from a sample of them that stays in Spark.

    Args:
        spark: The session that reads the sample.
        table: Name of the table.
        place: Where the rows are.

    Raises:
        IncrementalLoadError: The place cannot be read, or has no rows.
    """
    origin = _origin(spark, table, place)
    with kept(origin.frame) as rows:
        sample = sample_of(rows, origin.fields)
        counts = counts_of(rows, sets_to_count(origin, sample, table))
    return inferred(origin, sample, table, counts, now())


def _origin(spark: SparkSession, table: str, place: Place) -> Origin:
    match place:
        case FilesAt():
            return origin_of_files(spark, table, place.path)
        case TableAt():
            return replace(origin_of_table(spark, table, place.database, place.table), environment=place.environment)
        case TopicAt():
            return replace(origin_of_topic(spark, table, place.cluster, place.topic), environment=place.environment)

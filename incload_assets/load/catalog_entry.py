"""The entry of a table in Spark's catalog: an external table, whose columns are those that Delta's log has."""

from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked
from incload_assets.platform.settings import Settings
from incload_assets.platform.sql import literal, quoted


def entry_name(settings: Settings, path: Sequence[str]) -> tuple[str, str, str] | None:
    """The catalog, the schema and the name of a table's entry; None if the settings name no catalog.

    Args:
        settings: ``catalog`` is a catalog, whose schemas are the prefixes of asset keys, or ``catalog.schema``.
        path: The parts of the table's asset key.

    Example:
        >>> entry_name(Settings(catalog="main", environment="dev"), ["retail", "orders"])
        ('main', 'retail_dev', 'orders')
    """
    if settings.catalog is None:
        return None
    catalog, _, schema = settings.catalog.partition(".")
    *prefix, name = path if not schema else ["_".join(path)]
    own = settings.environment.replace("-", "_")  # an environment has tables of its own under the same keys
    return catalog, "_".join(filter(None, [schema or "_".join(prefix) or "default", own])), name


def keep_entry(load: LoadContext, settings: Settings, about: str | None) -> None:
    """Makes the entry of a loaded table if there is none, and gives the table the description that the entry shows.

    Nothing is ever dropped or pointed elsewhere: an entry of that name which is another table is left alone.

    Raises:
        IncrementalLoadError: The catalog refuses, or the entry is another table.
    """
    if (parts := entry_name(settings, load.table.key.path)) is None or (delta := load.lake.delta(load.uri)) is None:
        return
    schema, entry = (".".join(map(quoted, part)) for part in (parts[:2], parts))
    shown, spark = ".".join(parts), load.spark
    try:
        if not spark.catalog.tableExists(entry):
            if not spark.catalog.databaseExists(schema):
                spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            location = literal(load.lake.spark_uri(load.uri))
            spark.sql(f"CREATE TABLE IF NOT EXISTS {entry} USING delta LOCATION {location}")
        found = _described(spark, entry)
        if found["id"] == delta.metadata().id and about and found["description"] != about:
            spark.sql(f"COMMENT ON TABLE {entry} IS {literal(about)}")
    except PySparkException as error:
        raise IncrementalLoadError(
            f"{load.table.name}: the catalog has no entry {shown}: {masked(str(error).splitlines()[0])}",
            rule="INCLOAD_CATALOG names a catalog of the session, in which the account may create schemas and tables",
            remedy="correct INCLOAD_CATALOG, or make the schema and grant USE and CREATE TABLE in it; the table itself "
            "is loaded, and the next load tries again",
        ) from None
    if found["id"] != delta.metadata().id:
        raise IncrementalLoadError(
            f"{load.table.name}: the catalog's {shown} is another table or a view, at {found['location']}",
            rule=f"the entry of a table is at {load.uri}; entries of others are left alone",
            remedy="rename or drop that entry, or name another schema in INCLOAD_CATALOG; the table itself is loaded",
        )


def _described(spark: SparkSession, entry: str) -> dict[str, Any]:
    """The identifier, place and description of a Delta table; of anything else they are None."""
    try:
        found = spark.sql(f"DESCRIBE DETAIL {entry}").select("id", "location", "description").first()
    except PySparkException as error:
        if "EXPECT_TABLE_NOT_VIEW" not in str(error.getCondition()):
            raise
        found = None
    return found.asDict() if found else {"id": None, "location": "no place", "description": None}

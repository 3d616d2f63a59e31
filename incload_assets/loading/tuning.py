"""Spark settings for small loads.

A load of a few thousand rows is all overhead: compiling generated code for each stage, planning again after each
shuffle, tasks without rows. Interpreted, in one partition and planned once, it takes about a quarter of the processor
time (see ``tests/benchmarks/``). Large loads keep the server's own settings.
"""

from pyspark.sql import SparkSession

from resources.lake import Lake

SMALL_CHANGE_BYTES = 8 * 2**20
SMALL_TABLE_BYTES = 256 * 2**20

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


def tune(spark: SparkSession, lake: Lake, change_bytes: int, *uris: str) -> None:
    """Set the session for a load.

    Args:
        spark: The load's session.
        lake: Where tables are.
        change_bytes: Size of what the source holds for the window.
        uris: The tables that the load reads.
    """
    small = change_bytes <= SMALL_CHANGE_BYTES and all(_bytes(lake, uri) <= SMALL_TABLE_BYTES for uri in uris)
    for name, value in SMALL.items():
        if small:
            spark.conf.set(name, value)
        else:
            spark.conf.unset(name)


def _bytes(lake: Lake, uri: str) -> int:
    delta = lake.delta(uri)
    return 0 if delta is None else sum(delta.get_add_actions(flatten=True)["size_bytes"].to_pylist())

"""A code location with the table of small loads, and a run of it in a process of its own.

    python -m tests.benchmarks.location PARTITION

``INCLOAD_LAKE``, ``INCLOAD_LANDING`` and ``DAGSTER_HOME`` say where everything is.
"""

import sys

import dagster as dg
from pyspark.sql import DataFrame

from incload_assets.assembly import incremental_definitions
from incload_assets.loading import Changes, Files, Merge, incremental_asset
from resources.settings import Settings
from tests.benchmarks.items import WINDOWS
from tests.loading.tables import DatedItem


@incremental_asset(
    partitions_def=WINDOWS,
    source=Files("{landing}/{window:%Y-%m-%d}/*.json"),
    contract=DatedItem,
    changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
    write=Merge(partition_by="day"),
    code_version="1",
)
def items(changes: DataFrame) -> DataFrame:
    """Items."""
    return changes


defs = incremental_definitions([items], Settings())

if __name__ == "__main__":
    with dg.DagsterInstance.get() as instance:
        defs.resolve_job_def("load_items").execute_in_process(partition_key=sys.argv[1], instance=instance)

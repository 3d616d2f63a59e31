"""Loads by plan: the file of ``incload plan --out`` is checked, and says which partitions to load."""

from pathlib import Path

from incload_assets.declaration.table import Table
from incload_assets.recovery.planned import CHANGES, STOPS, Plan
from incload_assets.recovery.planning import check_plan
from resources.errors import IncrementalLoadError
from resources.lake import Lake
from resources.settings import Settings
from resources.spark.resource import SparkResource


def planned(table: Table, place: Path) -> list[str]:
    """The partitions that a plan would change, oldest first.

    Args:
        table: The table to be loaded.
        place: The file with the plan.

    Raises:
        IncrementalLoadError: The plan is of another table, is outdated, or contains a load that would stop.
    """
    try:
        text = place.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise IncrementalLoadError(
            f"{place} cannot be read: {type(error).__name__}",
            rule="a plan is a file written by incload plan --out",
            remedy=f"incload plan {table.name} --partitions … --out {place}",
        ) from None
    plan = Plan.of_json(text, str(place))
    if plan.table != table.name:
        raise IncrementalLoadError(
            f"{place} is a plan of {plan.table}, not of {table.name}",
            rule="a plan is of the loads of one table",
            remedy=f"incload load {plan.table} --plan {place}",
        )
    stops = [window.partition for window in plan.windows if window.outcome == STOPS]
    if stops:
        raise IncrementalLoadError(
            f"{table.name}: by the plan in {place} the load of {', '.join(stops)} would stop",
            rule="a load by plan does what the plan says, and nothing was loaded",
            remedy="correct the cause, which the plan names, and plan again; or plan the other partitions",
        )
    with SparkResource().session(table.name) as spark:
        check_plan(spark, table, Lake.of(Settings()), plan)
    return [window.partition for window in plan.windows if window.outcome == CHANGES]

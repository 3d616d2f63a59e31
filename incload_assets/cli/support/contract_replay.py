"""The rows of tables judged by the declarations of this folder, for ``incload contract diff --replay``."""

from collections.abc import Iterable

from incload_assets.change_log.context import LoadContext
from incload_assets.cli.support import screen
from incload_assets.declaration.table import Table
from incload_assets.recovery.judged_anew import JudgedAnew, judge_anew
from resources.lake import Lake
from resources.settings import Settings
from resources.spark.resource import SparkResource


def judged_anew(tables: Iterable[Table], last: int) -> dict[str, JudgedAnew]:
    """The verdicts of the declarations about the windows landed last, by the table's name.

    Args:
        tables: The declarations.
        last: The number of windows of each table.
    """
    found = {}
    with screen.apart(verbose=False) as console:
        for table in tables:
            with console.status(f"judging the rows of {table.name}"), SparkResource().session(table.name) as spark:
                found[table.name] = judge_anew(LoadContext(spark, table, Lake.of(Settings()).followed()), last)
    return found

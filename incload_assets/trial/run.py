"""Evaluates cases: by the oracle where it can, by real loads where it cannot or where they are wanted."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.sources.upstream.tables import Tables
from incload_assets.trial.cases import Case
from incload_assets.trial.outcome import Outcome
from incload_assets.trial.values import NeedsSpark
from incload_assets.trial.with_spark import load
from incload_assets.trial.without_spark import evaluate

Session = Callable[[str], AbstractContextManager[SparkSession]]
"""Opens a session of Spark, which is started if it is not up; the text says what for."""


def run(case: Case, session: Session, lake: Lake, *, by_spark: bool = False) -> Outcome:
    """The outcome of a case; Spark is started only if the case needs it, or ``by_spark``.

    Raises:
        IncrementalLoadError: The case is wrong, or its table is derived from others.
    """
    if isinstance(case.table.source, Tables):
        raise IncrementalLoadError(
            f"{case.file}: {case.table.name} is derived from other tables",
            rule="the windows of a case hold the rows of a source, and a derived table has none",
            remedy="write a case for each table upstream, and test the function with frames of Spark",
        )
    why = ""
    if not by_spark:
        try:
            return evaluate(case)
        except NeedsSpark as needed:
            why = str(needed)
    with session(case.table.name) as spark:
        return load(case, spark, lake, why)

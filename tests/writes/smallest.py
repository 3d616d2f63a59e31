"""The smallest example that fails as a random one did, as a literal to be pasted into a test."""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from incload_assets.trial.literal_source import Record
from tests.support.sampling import NIGHT
from tests.support.tables import day
from tests.writes.case import EXAMPLES, SEED, Case
from tests.writes.examples import Differs, Example, Run, Step
from tests.writes.shrinking import Trials, shrunk

MOST_RUNS = 60
MOST_SECONDS = 240.0

Row = tuple[str, str, Record]
"""A row of an example: ``held`` or ``rewritten``, the partition key, the record."""

_told: dict[str, str] = {}
"""What was found out before: hypothesis runs what fails once more."""


def check(
    spark: SparkSession, case: Case, example: Example, *, most: int = MOST_RUNS, seconds: float = MOST_SECONDS
) -> None:
    """Run an example; if it fails, its error tells of the smallest one that fails alike.

    Args:
        spark: A session.
        case: Of whose table.
        example: What to run.
        most: How many smaller examples may be tried.
        seconds: How long.

    Raises:
        AssertionError: The example fails.
    """
    try:
        (first := Run(spark, case, example)).go()
    except Exception as error:
        known = f"{case.name} {example}"
        if known not in _told:
            trials = Trials(most, seconds)
            least, says = _smallest(first, error, trials)
            _told[known] = (
                f"The smallest example that fails alike, of {trials.made} tried in {trials.seconds:.0f} s"
                f"{' (there was no time for more)' if trials.are_over else ''}, is of the case {case.name}:\n\n"
                f"{least}\n\n{says}\n\nINCLOAD_TEST_SEED={SEED} INCLOAD_TEST_EXAMPLES={EXAMPLES}"
                f" INCLOAD_TEST_NIGHT={NIGHT:d} repeat the first one."
            )
        error.add_note(_told[known])
        raise


def _smallest(failed: Run, error: Exception, trials: Trials) -> tuple[Example, Exception]:
    spark, case, says, known = failed.table.spark, failed.case, error, dict[str, bool]()
    steps = list(failed.example.steps[: failed.done + 1])
    rows = [
        (when, key, record)
        for when, content in (("held", failed.example.held), ("rewritten", failed.example.rewritten))
        for key, records in content.items()
        for record in records
    ]

    def fails(some: list[Step], few: list[Row]) -> bool:
        example = _example(some, _used(some, few))

        def trial() -> bool:
            nonlocal says
            try:
                Run(spark, case, example).go()
            except Exception as other:
                if type(other) is type(error):
                    says = other
                    return True
            return False

        if str(example) not in known:
            known[str(example)] = trials.fails(trial)
        return known[str(example)]

    rows = _used(steps, rows)
    if isinstance(error, Differs):
        concerned = [row for row in rows if row[2]["id"] is None or _stream(row[2]["id"]) in map(_stream, error.values)]
        if fails(steps, concerned):
            rows = concerned
    steps = shrunk(steps, lambda some: bool(some) and fails(some, rows))
    rows = _used(steps, rows)
    rows = shrunk(rows, lambda few: fails(steps, few))
    return _example(steps, _used(steps, rows)), says


def _example(steps: list[Step], rows: Iterable[Row]) -> Example:
    content: dict[str, dict[str, list[Record]]] = {"held": {}, "rewritten": {}}
    for when, key, record in rows:
        content[when].setdefault(key, []).append(record)
    return Example(steps, **content)


def _used(steps: list[Step], rows: list[Row]) -> list[Row]:
    """Those rows that some step reads."""
    read = {("rewritten" if what == "rewrite" else "held", day(n)) for what, days in steps for n in days}
    return [row for row in rows if row[:2] in read]


def _stream(value: str) -> str:
    return value.split("/")[0]

"""An example that fails is told as small as it gets."""

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.writes.plan import MergePlan
from tests.support.sampling import NIGHT
from tests.support.tables import day, item
from tests.writes.case import Case
from tests.writes.case_merge import MERGE, newest
from tests.writes.examples import Differs, Example, Run
from tests.writes.shrinking import Trials, shrunk
from tests.writes.smallest import check


class Unguarded(Merge):
    """A Merge that brings back a row that something newer has overtaken: the load that comes last wins."""

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """As planned, but what is stale is an update, unless that has been done."""
        plan = super().plan(load, at, full=full)
        wins = (F.col("_action") == "stale") & (F.col("_seen") != F.col("_mine_order"))
        mine = plan.actions.withColumn("_action", F.when(wins, "update").otherwise(F.col("_action")))
        return MergePlan(mine, plan.identity, "true", plan.ledger)


UNGUARDED = Case("unguarded", Unguarded(), newest)
LARGE = Example(
    steps=[("load", (2,)), ("replay", (2,)), ("load", (1,))],
    held={
        day(1): [item("0/1", "a", 1), item("1/1", "a", 3)],
        day(2): [item("0/1", "b", 2), item("0/2", "b", 2)],
    },
)
SMALL = """\
Example(
steps=[('load', (2,)), ('load', (1,))],
held={'2026-01-01': [{'id': '0/1', 'op': 'u', 'seq': '1', 'value': 'a'}],
 '2026-01-02': [{'id': '0/1', 'op': 'u', 'seq': '2', 'value': 'b'}]},
)"""


def test_what_fails_is_reduced_to_what_it_does_not_fail_without() -> None:
    tried: list[list[int]] = []

    def fails(some: list[int]) -> bool:
        tried.append(some)
        return {3, 17, 18} <= set(some)

    assert shrunk(range(40), fails) == [3, 17, 18]
    assert len(tried) < 40


def test_without_time_it_is_reduced_as_far_as_the_time_allows() -> None:
    trials = Trials(most=3, seconds=60)
    assert shrunk(range(8), lambda some: trials.fails(lambda: 6 in some)) == [6, 7]
    assert (trials.made, trials.are_over) == (3, True)
    trials = Trials(most=3, seconds=0)
    assert shrunk([1, 2], lambda some: trials.fails(lambda: True)) == [1, 2]
    assert trials.made == 0


@pytest.mark.slow
@pytest.mark.skipif(not NIGHT, reason="of the conformance suite itself, and long: for the night")
@pytest.mark.timeout(900)
def test_a_merge_that_lacks_its_guard_is_told_by_two_rows_and_two_loads_that_can_be_run_again(
    spark: SparkSession,
) -> None:
    with pytest.raises(Differs, match=r"after \('load', \(1,\)\)") as failed:
        check(spark, UNGUARDED, LARGE, seconds=700)  # on a machine that is busy, too
    (note,) = failed.value.__notes__
    assert SMALL in note
    assert re.search(r"of \d+ tried in \d+ s, is of the case unguarded:", note)
    with pytest.raises(Differs):
        Run(spark, UNGUARDED, eval(SMALL)).go()
    Run(spark, MERGE, eval(SMALL)).go()

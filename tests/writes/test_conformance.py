"""What every way of writing has to do, whatever it means: the laws, on random changes through the real loads.

INCLOAD_TEST_EXAMPLES is the number of random examples of each; the default is 1 by day and 10 at night. An
example that fails is told with the seed, INCLOAD_TEST_SEED, and with the smallest one that fails alike.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.change_log import read_view
from incload_assets.delta import tuning
from incload_assets.writes import merge_into as merging
from incload_assets.writes import versions
from tests.writes.case import EXAMPLES, SEED, WINDOWS, Case, Content, crowds
from tests.writes.case_history import HISTORY
from tests.writes.case_merge import MERGE
from tests.writes.case_merge_partitioned import MERGE_PARTITIONED
from tests.writes.cases import CASES
from tests.writes.examples import Example
from tests.writes.smallest import MOST_SECONDS, check

ROWS = 12

windows = st.permutations(range(1, WINDOWS + 1)).filter(lambda order: order != sorted(order))
light = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an example takes long; see tests/writes/smallest.py
    print_blob=True,
)


@pytest.fixture(autouse=True, scope="module")
def tables_that_are_large() -> Iterator[None]:
    """Load as into tables so large that rows of other keys are left out before anything is computed of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_view, "WORTH_FILTERING_BYTES", 0)
        patch.setattr(versions, "WORTH_HOLDING_BYTES", 0)
        yield


@st.composite
def examples(draw: st.DrawFn, case: Case) -> Example:
    """Loads in any order, one of them repeated and one forgotten, some together, compacted, rewritten, undone."""
    contents = crowds() if case.contents is None else case.contents
    # worth the loads: the simplest content, which hypothesis always tries first, is empty
    content: st.SearchStrategy[Content] = contents.filter(lambda content: sum(map(len, content.values())) >= ROWS)
    (first, second, *others), (last, lastly, *_) = draw(windows), draw(windows)
    steps = [
        ("load", (first,)),
        ("plan", (first,)),
        ("load", (second,)),
        ("load", (first,)),
        ("replay", (second,)),
        ("together", tuple(others)),
        ("undo", (first,)),
        ("release", (first,)),
        ("compact_but", (last, lastly)),
        ("rewrite", (last,)),
        ("rewrite", (lastly,)),
        ("undo", (last,)),
        ("edited", ()),
        ("settled", ()),
    ]
    return Example(steps, draw(content), draw(content))


@pytest.mark.timeout(300 + MOST_SECONDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_whatever_the_order_repetition_and_rewriting_of_loads_the_table_is_what_its_changes_make(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    check(spark, case, data.draw(examples(case), label="example"))


@pytest.mark.timeout(300 + MOST_SECONDS)
@pytest.mark.parametrize("case", [MERGE, MERGE_PARTITIONED, HISTORY], ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_few_changes_of_many_rows_which_are_not_sorted_make_the_same_table(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "SMALL_READ_BYTES", -1)
        patch.setattr(merging, "WORTH_COUNTING_BYTES", 0)
        check(spark, case, data.draw(examples(case), label="example"))

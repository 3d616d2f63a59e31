"""What every way of writing has to do, whatever it means: the laws, on random changes through the real loads.

INCLOAD_TEST_EXAMPLES is the number of random examples of each; the default is for every day, 100 for a night.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.loading import Quarantine
from incload_assets.loading.compaction import compact
from incload_assets.loading.context import Context
from incload_assets.loading.ranges import load_first_windows
from incload_assets.loading.reconciliation import examine
from incload_assets.loading.window import now, window_of
from incload_assets.loading.writes.merging import app_id
from tests.loading.literal_source import Record
from tests.loading.tables import Loaded, day, make
from tests.loading.writes.case import EXAMPLES, WINDOWS, Case, Content, Hashes, crowds, hashes_of
from tests.loading.writes.cases import CASES

ROWS = 12

windows = st.permutations(range(1, WINDOWS + 1)).filter(lambda order: order != sorted(order))
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
light = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take hours
    print_blob=True,
)


def declared(spark: SparkSession, case: Case, content: Content) -> Loaded:
    folder, everything = Path(mkdtemp(prefix="conformance-")), Quarantine(max_share=1.0)
    return make(spark, folder, content, quarantine=everything, **case.declared)


def pending(table: Loaded, case: Case) -> int:
    """Rows that plans made in full would change."""
    context = Context(table.spark, table.table, table.lake)
    every = tuple(window_of(case.partitions_def, day(number)) for number in range(1, WINDOWS + 1))
    total = 0
    for some in [every] if case.write.ranges else [(window,) for window in every]:
        at = context.snapshot(some, app_id(table.table, some[0]))
        total += sum(e.pending for e in examine(table.table.write.plan(context, at, full=True), at).values())
    return total


def load_together(table: Loaded, case: Case, numbers: Sequence[int]) -> None:
    """Load windows for the first time, at once where the way of writing can."""
    together = [window_of(case.partitions_def, day(number)) for number in sorted(numbers)]
    context = Context(table.spark, table.table, table.lake)
    done = load_first_windows(context, together, lambda ws: {w.key for w in ws}, run_id="", say=lambda _: None)
    loaded = {report.window.key for reports in done for report in reports} if case.write.ranges else set()
    assert loaded == ({window.key for window in together} if case.write.ranges else set())
    for window in together:
        if window.key not in loaded:
            table.load(window.key)


def check(
    table: Loaded, case: Case, loaded: Mapping[str, Sequence[Record]], hashes: Hashes | None = None
) -> set[tuple[Any, ...]]:
    """Hold the table against the oracle; what differs is told with all changes of the streams concerned, no more."""
    found, right = case.held(table), case.right(table, loaded, hashes)
    if found != right:
        streams = {str(value).split("/")[0] for row in found ^ right for value in row if "/" in str(value)}
        for window, records in loaded.items():
            note(f"{window}: {[r for r in records if not streams or str(r.get('id')).split('/')[0] in streams]}")
    assert found == right
    return right


def compact_log(table: Loaded, rewritten: Sequence[int]) -> None:
    """Compact what is loaded, but for windows that will be rewritten."""
    context = Context(table.spark, table.table, table.lake)
    at_rest = {
        key: control.fingerprint
        for key, control in context.log.controls().items()
        if key not in {day(number) for number in rewritten}
    }
    compact(context, now(), lambda _: at_rest, run_id="", say=lambda _: None)


def drawn(data: st.DataObject, case: Case) -> Content:
    """Content worth the loads: the simplest, which hypothesis always tries first, is empty."""
    contents = crowds() if case.contents is None else case.contents
    return data.draw(contents.filter(lambda content: sum(map(len, content.values())) >= ROWS))


@by_name
@light
@given(data=st.data())
def test_whatever_the_order_repetition_and_rewriting_of_loads_the_table_is_what_its_changes_make(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    content, rewritten = drawn(data, case), drawn(data, case)
    first, second = data.draw(windows), data.draw(windows)
    note(f"loads {first[:2]}, {first[0]} again, {first[2:]} together")
    note(f"compacts, where that can be, all but {second[:2]}, which are then loaded rewritten")
    table = declared(spark, case, content)
    context = Context(spark, table.table, table.lake)
    one = table.load(first[0])
    assert one.evidence.rows_read == len(content[day(first[0])])
    at = context.snapshot((one.window,), app_id(table.table, one.window))
    forgotten = table.table.write.plan(context, at, full=True)  # of a load that stops here, and goes on later
    two = table.load(first[1])
    table.load(first[0])  # not known to be clean: so it commits at least its fence
    right = check(table, case, {day(n): content[day(n)] for n in first[:2]})
    files = table.files()
    table.replay(two)
    assert table.table.write.apply(context, at, forgotten) is None
    assert (table.files(), case.held(table)) == (files, right), "a replay and a forgotten plan write no file"
    load_together(table, case, first[2:])
    check(table, case, content)
    hashes, last = hashes_of(table), second[: WINDOWS // 2]
    if case.write.compacts:
        compact_log(table, last)
        assert pending(table, case) == 0
    for number in last:
        content[day(number)] = rewritten[day(number)]
        table.load(number)
    check(table, case, content, hashes)
    assert pending(table, case) == 0

"""What every way of writing has to do, whatever it means: the laws, on random changes through the real loads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.loading.context import Context
from incload_assets.loading.load import ensure_tables
from incload_assets.loading.reconciliation import examine
from incload_assets.loading.window import window_of
from incload_assets.loading.writes.merging import app_id
from tests.loading.literal_source import Record
from tests.loading.tables import Loaded, day, make
from tests.loading.writes.case import WINDOWS, Case, Content, crowds
from tests.loading.writes.cases import CASES

windows = st.permutations(range(1, WINDOWS + 1))
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
light = settings(
    max_examples=1,
    deadline=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take hours
    print_blob=True,
)


def declared(spark: SparkSession, case: Case, content: Content) -> Loaded:
    return make(
        spark,
        Path(mkdtemp(prefix="conformance-")),
        content,
        contract=case.contract,
        write=case.write,
        changes=case.changes,
        partitions_def=case.partitions_def,
    )


def expected(table: Loaded, case: Case, loaded: Mapping[str, Sequence[Record]]) -> set[tuple[Any, ...]]:
    """The oracle's rows. Ties are decided by a content hash, which is taken from the log: any would do."""
    names = table.table.columns
    known = table.log("upsert", *names, "_hash") + table.log("delete", *names, "_hash")
    hashes = {tuple(map(str, row[:-1])): row[-1] for row in known}

    def order(record: Record) -> tuple[Any, ...]:
        seq = record["seq"]
        place = tuple(str(record.get(name)) for name in names)
        return (seq is not None, int(seq or 0), record["op"] == "d", hashes[place])

    return case.expected(loaded, order)


def rows(table: Loaded, case: Case) -> set[tuple[Any, ...]]:
    return case.rows(table) if case.rows else table.rows(*case.columns)


def pending(table: Loaded, case: Case, number: int) -> int:
    """Rows that a plan made in full would change."""
    context = Context(table.spark, table.table, table.lake)
    window = window_of(case.partitions_def, day(number))
    at = context.snapshot((window,), app_id(table.table, window))
    return sum(e.pending for e in examine(table.table.write.plan(context, at, full=True), at).values())


@by_name
@light
@given(data=st.data())
def test_whatever_the_order_repetition_and_rewriting_of_loads_the_table_is_what_its_changes_make(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    contents = crowds() if case.contents is None else case.contents
    content, rewritten = data.draw(contents), data.draw(contents)
    first, second = data.draw(windows), data.draw(windows)
    repeats = data.draw(st.lists(st.integers(1, WINDOWS), max_size=2))
    note(f"loads {first}, again {repeats}, then half of the windows rewritten, loads {second}")
    table = declared(spark, case, content)
    done: set[int] = set()
    for number in [*first[:2], *repeats, *first[2:]]:
        table.load(number)
        done.add(number)
        if len(done) == 2:
            assert rows(table, case) == expected(table, case, {day(n): content[day(n)] for n in done})
    assert rows(table, case) == expected(table, case, content)
    for number in second[: WINDOWS // 2]:
        content[day(number)] = rewritten[day(number)]
        table.load(number)
    assert rows(table, case) == expected(table, case, content)
    assert [pending(table, case, number) for number in range(1, WINDOWS + 1)] == [0] * WINDOWS


@by_name
@light
@given(data=st.data())
def test_a_replay_writes_no_file_and_a_forgotten_plan_changes_nothing(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    content = data.draw(crowds() if case.contents is None else case.contents)
    table = declared(spark, case, content)
    first = table.load(1)
    context = Context(spark, table.table, table.lake)
    ensure_tables(context)
    window = window_of(case.partitions_def, day(1))
    at = context.snapshot((window,), app_id(table.table, window))
    forgotten = table.table.write.plan(context, at, full=True)  # of a load that stops here, and goes on later
    second = table.load(2)
    table.load(1)  # not known to be clean: so it commits at least its fence
    files, before = table.files(), rows(table, case)
    table.replay(second)
    table.replay(table.load(1))
    assert table.files() == files
    assert table.table.write.apply(context, at, forgotten) is None
    assert (table.files(), rows(table, case)) == (files, before)
    assert before == expected(table, case, {day(n): content[day(n)] for n in (1, 2)})
    assert first.evidence.rows_read == len(content[day(1)])

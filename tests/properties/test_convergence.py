"""Law 1: a table is the fold of what its source holds, whatever the order, batches and repetitions of loads.

A load costs seconds, an example many loads: so each example carries a crowd of independent streams, told apart by their
keys, through the same loads.
"""

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.loading.context import Context
from incload_assets.loading.reconciliation import examine
from incload_assets.loading.window import window_of
from incload_assets.loading.writes.merging import app_id
from tests.loading.literal_source import Record
from tests.loading.tables import DAYS, Loaded, day, item, make
from tests.oracle import change_streams, fold

WINDOWS = 4
CROWD = 20

crowds = st.lists(change_streams(max_batches=WINDOWS), min_size=CROWD, max_size=CROWD).filter(
    lambda crowd: sum(len(batch) for stream in crowd for batch in stream) > CROWD  # the simplest, tried first, is empty
)
orders = st.permutations(range(1, WINDOWS + 1)).filter(lambda order: order != sorted(order))


def batches(crowd: list[list[list[dict[str, Any]]]]) -> dict[str, list[Record]]:
    """Batch number n of every stream goes to the window of day n."""
    content: dict[str, list[Record]] = {day(n): [] for n in range(1, WINDOWS + 1)}
    for number, stream in enumerate(crowd):
        for n, batch in enumerate(stream, 1):
            content[day(n)] += [item(f"{number}/{c['id']}", c["value"], c["at"], c["op"]) for c in batch]
    return content


def expected(table: Loaded) -> set[tuple[Any, ...]]:
    """The oracle's table. Ties are decided by a content hash, which is taken from the log: any would do."""
    known = table.log("upsert", "id", "value", "seq", "_hash") + table.log("delete", "id", "value", "seq", "_hash")
    hashes = {row[:3]: row[3] for row in known}
    rows = [
        {"id": r["id"], "value": r["value"], "seq": None if r["seq"] is None else int(r["seq"]), "op": r["op"]}
        for records in table.content.values()
        for r in records
    ]
    folded = fold(
        rows,
        ["id"],
        ["seq"],
        lambda row: row["op"] == "d",
        lambda row: hashes[row["id"], row["value"], row["seq"]],
    )
    return {(row["id"], row["value"], row["seq"]) for row in folded.values()}


def pending_in_full(table: Loaded) -> int:
    """Keys that a full fold would change: none, if fast and full fold agree."""
    total = 0
    for n in range(1, WINDOWS + 1):
        window = window_of(DAYS, day(n))
        context = Context(table.spark, table.table, table.lake)
        at = context.snapshot((window,), app_id(table.table, window))
        total += examine(table.table.write.plan(context, at, full=True), at)[window.key].pending
    return total


@settings(
    max_examples=1,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take hours
    print_blob=True,
)
@given(crowds, crowds, orders, orders, st.lists(st.integers(1, WINDOWS), max_size=2))
def test_any_order_and_repetition_of_loads_and_rewrites_gives_the_fold(
    spark: SparkSession,
    crowd: list[list[list[dict[str, Any]]]],
    rewritten: list[list[list[dict[str, Any]]]],
    first: list[int],
    second: list[int],
    repeats: list[int],
) -> None:
    table = make(spark, Path(mkdtemp(prefix="convergence-")), batches(crowd))
    note(f"loads {first}, again {repeats}, then half of the windows rewritten, loads {second}")
    for number in [*first, *repeats]:
        table.load(number)
    assert table.rows() == expected(table)
    replacement = batches(rewritten)
    for number in second[: WINDOWS // 2]:
        table.content[day(number)] = replacement[day(number)]
        table.load(number)
    assert table.rows() == expected(table)
    assert pending_in_full(table) == 0

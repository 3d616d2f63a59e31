"""Cases evaluated by real loads: what only Spark evaluates, and the same as the oracle says of what it evaluates."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, History, Merge, Overwrite
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.trial.cases import Case
from incload_assets.trial.outcome import Outcome
from incload_assets.trial.with_spark import load
from incload_assets.trial.without_spark import evaluate
from tests.support.tables import DatedItem, Item, day
from tests.trial.made import REASONS, Odd, case, table, wrong
from tests.writes.case import SEED

DELETES = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")


def stream(windows: int, rows: int, *, deletes: bool, dated: bool) -> str:
    """Random windows, in random order and one of them twice, whose ties have equal content."""
    chance, lines = Random(SEED), ["windows:"]
    order = [*range(1, windows + 1), 1]
    chance.shuffle(order)
    for number in order:
        lines += [f"  - window: {day(number)}", "    rows:"]
        for _ in range(rows):
            id, seq = chance.randint(1, 12), chance.choice(["null", 0, 1, 2, 3])
            op = ", op: d" if deletes and chance.random() < 0.2 else ", op: u" if deletes else ""
            dated_on = f", day: {day(number if chance.random() < 0.9 else number + 1)}" if dated else ""
            lines.append(f"      - {{id: {id}, value: {id}/{seq}, seq: {seq}{op}{dated_on}}}")
    return "\n".join(lines)


def as_found(folder: Path, of: Case, text: str, found: Outcome) -> Case:
    """The case that expects what was found."""

    def entries(rows: list[dict[str, str | None]]) -> str:
        shown = [", ".join(f"{k}: {'null' if v is None else repr(v)}" for k, v in row.items()) for row in rows]
        return "".join(f"\n  - {{{line}}}" for line in shown) or " []"

    rejected = [{"id": row["id"], "value": row["value"], "_reason": row["_reason"]} for row in found.rejected]
    for row in rejected:
        assert row["_reason"] is not None
        row["_reason"] = row["_reason"].replace("'", "''")
    quoted = entries(rejected).replace('"', "'")
    return case(folder, of.table, f"{text}\nexpected:{entries([dict(row) for row in found.rows])}\nrejected:{quoted}\n")


KINDS = [
    (Merge(), DELETES, Item),
    (History(), DELETES, Item),
    (Append(), Changes(keys=["id"], sequence_by=["seq"]), Item),
    (Overwrite(partition_by="day"), Changes(), DatedItem),
]
LONG = pytest.mark.night


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "changes", "contract", "windows"),
    [(*KINDS[0], 2), *(pytest.param(*kind, 4, marks=LONG) for kind in KINDS)],
    ids=lambda each: type(each).__name__ if isinstance(each, Write) else "",
)
def test_a_random_stream_makes_the_same_table_by_the_oracle_and_by_real_loads(
    spark: SparkSession, tmp_path: Path, write: Write, changes: Changes, contract: type, windows: int
) -> None:
    text = stream(windows, 15, deletes=changes.delete_when is not None, dated=contract is DatedItem)
    of = case(tmp_path, table(write=write, changes=changes, contract=contract), f"{text}\nexpected: []")
    by_oracle = evaluate(of)
    assert len(by_oracle.rows) > 3
    wanted = as_found(tmp_path, of, text, by_oracle)
    assert wrong(wanted, load(wanted, spark, Lake(str(tmp_path / "lake")))) == []


@pytest.mark.slow
def test_a_function_is_applied_by_a_load_which_rejects_rows_in_the_words_of_the_oracle_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    def doubled(changes: DataFrame) -> DataFrame:
        return changes.withColumn("amount", (F.col("amount") * 2).cast(T.DecimalType(5, 2)))

    text = REASONS.replace("amount: 7.00", "amount: 14.00").replace("amount: 100.5,", "amount: 50.25,")
    of, lake = case(tmp_path, replace(table(contract=Odd), function=doubled), text), Lake(str(tmp_path / "lake"))
    assert wrong(of, load(of, spark, lake)) == []
    assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file()] == []

    mistaken = case(tmp_path, of.table, text.replace("amount: 14.00", "amount: much"))
    with pytest.raises(IncrementalLoadError, match=r"case.yaml:10: amount is 'much'. Rule: the table has it"):
        load(mistaken, spark, lake)

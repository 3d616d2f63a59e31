"""Fold, sentence by sentence, on literal rows."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Evolution, Fold
from incload_assets.platform.errors import ContractViolation
from tests.support.tables import Item, day, item, make
from tests.writes.case_fold import Tally


def test_a_late_window_is_added_and_one_landed_again_contributes_what_it_now_holds(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("a", "old", 1, amount="5", least="x"), item("b", "only", 1, amount=None, least=None)],
        day(2): [item("a", "new", 2, amount="3", least="y"), item("a", "newer", 3, amount="1", least="y")],
    }
    table = make(
        spark,
        tmp_path,
        content,
        contract=Tally,
        write=Fold(sums=["amount"], mins=["least"]),
        changes=Changes(keys=["id"], sequence_by=["seq"]),
    )
    table.load(2)
    assert table.rows() == {("a", "newer", 3, 4, "y")}
    late = table.load(1)
    assert table.rows() == {("a", "newer", 3, 9, "x"), ("b", "only", 1, None, None)}
    assert (late.evidence.applied, late.merged.inserted, late.merged.updated) == (2, 1, 1)

    content[day(2)] = []
    table.load(2)
    assert table.rows() == {("a", "old", 1, 5, "x"), ("b", "only", 1, None, None)}
    content[day(1)] = [item("a", "old", 1, amount="5", least="x")]
    gone = table.load(1)
    assert table.rows() == {("a", "old", 1, 5, "x")}
    assert (gone.merged.deleted, gone.evidence.applied, gone.evidence.pending) == (1, 1, 0)


def test_a_sum_that_its_type_cannot_hold_fails_by_the_name_of_its_column(spark: SparkSession, tmp_path: Path) -> None:
    def summed(kind: type, most: str, name: str, **options: Any) -> None:
        contract = type(
            "Counted",
            (Item,),
            {"__annotations__": {"few": T.IntegerType, "amount": kind}, "few": pa.Field(nullable=True),
             "amount": pa.Field(nullable=True)},
        )  # fmt: skip
        rows = [item("a", "v", number, few="1", amount=most) for number in (1, 2)]
        write = Fold(sums=["few", "amount"])
        changes = Changes(keys=["id"], sequence_by=["seq"])
        table = make(
            spark, tmp_path, {day(1): rows}, contract=contract, write=write, changes=changes, name=name, **options
        )
        table.load(1)
        assert table.rows("few", "amount") == {(2, 2 * int(most))}

    for kind, most in ((T.ByteType, 2**7 - 1), (T.LongType, 2**63 - 1)):
        name = f"of_{kind.__name__}"
        with pytest.raises(ContractViolation, match=r"sum of 'amount' of a key is more than \w+int .*widen='apply'"):
            summed(kind, str(most), name)
        summed(T.DecimalType(38, 0), str(most), name, evolution=Evolution(widen="apply"))

"""The key that ``incload trace`` is asked for, by the types of the contract."""

from datetime import UTC, date, datetime
from decimal import Decimal

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.assets import Append, Changes, DeleteInsert, Files, Merge
from incload_assets.declaration.declare import declare
from incload_assets.declaration.table import Declaration, Table
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.protection.row_key import key_of


class Booking(pa.DataFrameModel):
    """With columns of many types."""

    number: T.IntegerType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=False, metadata={"personal": True})
    day: T.DateType = pa.Field(nullable=False)
    at: T.TimestampType = pa.Field(nullable=False)
    amount: T.DecimalType = pa.Field(nullable=False, dtype_kwargs={"precision": 5, "scale": 2})
    paid: T.BooleanType = pa.Field(nullable=False)
    weight: T.DoubleType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)


def bookings(*keys: str, write: Write = Merge(), root: str = "/tmp") -> Table:  # noqa: B008 - immutable
    return declare(
        Declaration(
            key=dg.AssetKey(["bookings"]),
            partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
            source=Files(f"{root}/bookings/{{window:%Y-%m-%d}}.json"),
            contract=Booking,
            changes=Changes(keys=list(keys), sequence_by=["seq"]),
            write=write,
            function=lambda changes: changes,
            code_version="1",
        )
    )


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("number", "17", 17),
        ("name", "a=b", "a=b"),
        ("name", "", ""),
        ("day", "2026-01-05", date(2026, 1, 5)),
        ("at", "2026-01-05T09:00:00+01:00", datetime(2026, 1, 5, 8, tzinfo=UTC)),
        ("at", "2026-01-05T09:00:00", datetime(2026, 1, 5, 9, tzinfo=UTC)),
        ("amount", "1.5", Decimal("1.5")),
        ("paid", "true", True),
        ("weight", "-0.5", -0.5),
        ("weight", "inf", float("inf")),
    ],
)
def test_a_key_is_of_the_type_that_the_contract_declares(column: str, text: str, value: object) -> None:
    assert key_of(bookings(column), [f"{column}={text}"]) == {column: value}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("number", "x"), ("number", str(2**31)), ("day", "2026-01"), ("at", "noon"), ("amount", "1.555"),
        ("paid", "yes"), ("amount", "NaN"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_with_what_to_write(column: str, text: str) -> None:
    with pytest.raises(IncrementalLoadError, match=rf"bookings: {column}: .* is not .*Rule: Booking.*Remedy: write"):
        key_of(bookings(column), [f"{column}={text}"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["number"], "'number' is no column with a value"),
        (["number=1", "number=2"], "'number' is given twice"),
        (["weight=1", "number=1"], "'weight' is no column of the key. Rule: the key's columns are number, day"),
        (["day=2026-01-05"], "the key lacks 'number'. Rule: a row is identified by number. "
         "Remedy: write incload trace bookings number=VALUE"),
    ],
)  # fmt: skip
def test_a_key_that_names_no_row_is_refused_with_an_example(words: list[str], says: str) -> None:
    with pytest.raises(IncrementalLoadError) as refused:
        key_of(bookings("number", write=Merge(partition_by="day")), words)
    assert says in str(refused.value)


def test_a_group_is_named_by_its_columns_and_a_row_without_a_key_by_any() -> None:
    grouped = bookings(write=DeleteInsert(by=["number"]))
    assert key_of(grouped, ["number=1"]) == {"number": 1}
    assert key_of(bookings(write=Append()), ["paid=false", "weight=0.5"]) == {"paid": False, "weight": 0.5}


def test_a_partition_column_may_be_given_or_left_out() -> None:
    table = bookings("number", write=Merge(partition_by="day"))
    assert key_of(table, ["number=1"]) == {"number": 1}
    assert key_of(table, ["number=1", "day=2026-01-05"]) == {"number": 1, "day": date(2026, 1, 5)}

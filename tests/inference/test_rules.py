"""Rules of the inference, on literal facts: types, key, order, personal columns, names of files, places, modules."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame

from incload_assets.inference.column_types import of_variant, type_of
from incload_assets.inference.evidence import Column, Sample
from incload_assets.inference.file_names import named
from incload_assets.inference.inferred import inferred, sequence_why, sets_to_count
from incload_assets.inference.keys import choose, sequence_of
from incload_assets.inference.origin import WINDOW, Origin, Partitions
from incload_assets.inference.personal import may_be_personal, why_personal
from incload_assets.inference.places import FilesAt, TableAt, TopicAt, place_of
from incload_assets.inference.render import module_of
from incload_assets.inference.spelled import class_name, identifier, type_options, type_text, why_left_out
from incload_assets.platform.errors import IncrementalLoadError

TEXT = T.StringType()


def column(name: str = "value", native: T.DataType = TEXT, **facts: Any) -> Column:
    """A column with a value in each of a thousand rows."""
    return Column(name=name, native=native, **{"rows": 1000, "distinct": 1000} | facts)


@pytest.mark.parametrize(
    ("facts", "kind", "why"),
    [
        ({"fits": {"bigint": 1000, "double": 1000}}, T.LongType(), "all 1,000 values are integers"),
        ({"fits": {"bigint": 1000, "double": 1000}, "zeros": 3}, TEXT,
         "3 of 1,000 values begin with 0, as codes do: text"),
        ({"fits": {"bigint": 1000, "double": 1000}, "quoted": True}, TEXT, "text"),
        ({"fits": {"double": 1000}, "scale": 2, "digits": 5}, T.DecimalType(12, 2),
         "all 1,000 values have at most 2 digits after the point and 5 before it"),
        ({"fits": {"double": 1000}, "scale": 1, "digits": 9}, T.DecimalType(15, 2),
         "all 1,000 values have at most 1 digit after the point and 9 before it"),
        ({"fits": {"double": 1000}, "scale": 9, "digits": 2}, T.DoubleType(),
         "numbers with up to 9 digits after the point: no fixed scale"),
        ({"fits": {"double": 1000}, "inexact": 1}, T.DoubleType(), "numbers with exponents: no fixed scale"),
        ({"native": T.DoubleType(), "name": "total_price", "scale": 6, "digits": 3}, T.DecimalType(13, 6),
         "all 1,000 values have at most 6 digits after the point and 3 before it"),
        ({"fits": {"boolean": 1000}}, T.BooleanType(), "all 1,000 values are true or false"),
        ({"fits": {"date": 1000, "timestamp": 1000}}, T.DateType(), "all 1,000 values are dates"),
        ({"fits": {"timestamp": 1000}, "zoned": 1000}, T.TimestampType(),
         "all 1,000 values are instants with an offset"),
        ({"native": T.TimestampNTZType()}, T.TimestampType(), "instants without a time zone, read as UTC"),
    ],
)  # fmt: skip
def test_a_type_is_what_all_values_are(facts: Mapping[str, Any], kind: T.DataType, why: str) -> None:
    guess = type_of(column(**facts))
    assert (guess.kind, guess.why) == (kind, why)


@pytest.mark.parametrize(
    ("facts", "question"),
    [
        ({"fits": {"timestamp": 1000}, "zoned": 400}, "600 values have no offset and are read as UTC"),
        ({"fits": {"bigint": 990}}, "990 of 1,000 values are integers. Are the others mistakes?"),
        ({"nulls": 1000}, "every value in the sample is NULL. Which type is it?"),
        ({"fits": {"bigint": 1000}, "newest": "1767225600123"}, "its numbers look like milliseconds since 1970"),
    ],
)
def test_what_the_values_do_not_tell_is_a_question(facts: Mapping[str, Any], question: str) -> None:
    assert type_of(column(**facts)).question.startswith(question)


TYPES: Mapping[str, T.DataType] = {
    "status": TEXT, "order_id": T.LongType(), "line_no": T.LongType(), "updated_at": T.TimestampType(),
    "version": T.LongType(), "amount": T.DecimalType(12, 2),
}  # fmt: skip


def origin() -> Origin:
    """Files of two days."""
    days = Partitions("daily", datetime(2026, 1, 5), "dates in names")
    return Origin(place="files", frame=cast(DataFrame, None), fields=[], source="Files(…)", imports=["Files"],
                  partitions=days, newest="2026-01-06")  # fmt: skip


def sample(**distinct: int) -> Sample:
    """A thousand different rows with columns of so many different values."""
    columns = tuple(column(name, TYPES[name], distinct=number) for name, number in distinct.items())
    return Sample(columns=columns, rows=1000, different=1000)


@pytest.mark.parametrize(
    ("found", "counts", "key", "versions"),
    [
        ({"status": 1000, "order_id": 1000}, {("order_id",): 1000, ("status",): 1000}, ("order_id",), False),
        ({"order_id": 900, "updated_at": 990}, {("order_id",): 900, ("order_id", "updated_at"): 1000}, ("order_id",),
         True),
        ({"order_id": 400, "line_no": 9, "updated_at": 400},
         {("order_id",): 400, ("order_id", "updated_at"): 400, ("line_no",): 9, ("line_no", "updated_at"): 700,
          ("order_id", "line_no"): 1000, ("order_id", "line_no", "updated_at"): 1000}, ("order_id", "line_no"), False),
        ({"status": 5, "amount": 1000}, {("status",): 5}, (), False),
    ],
)  # fmt: skip
def test_a_key_is_the_smallest_set_that_is_unique_and_whose_names_say_so(
    found: Mapping[str, int], counts: Mapping[tuple[str, ...], int], key: tuple[str, ...], versions: bool
) -> None:
    facts = sample(**found)
    chosen = choose(facts, "orders", TYPES, sequence_of(facts.columns, TYPES), counts)
    assert (chosen.columns, chosen.versions) == (key, versions)


def test_full_extracts_are_known_by_a_key_that_comes_once_in_each_window() -> None:
    types: Mapping[str, T.DataType] = {"customer_no": T.LongType(), "city": TEXT}
    columns = tuple(column(name, kind, distinct=500) for name, kind in types.items())
    counts = {("customer_no",): 500, ("city",): 9, ("customer_no", WINDOW): 1000, ("customer_no", "city"): 900}
    facts = Sample(columns=columns, rows=1000, different=900)

    found = inferred(origin(), facts, "customers", counts, datetime(2026, 1, 7, tzinfo=UTC))

    assert (found.keys, found.write) == (("customer_no",), "Snapshot()")
    assert found.keys_why == "unique within each window: 500 keys in 1,000 rows"
    assert "is each window a full extract? Snapshot() deletes what the newest one lacks." in found.questions
    assert 'changes=Changes(keys=["customer_no"]),' in module_of(found)


def test_a_source_that_has_an_order_and_no_key_gets_the_key_of_its_rows() -> None:
    instant = T.TimestampType()
    columns = (column("at", instant), column("changed_at", instant), column("item_id", T.LongType(), distinct=900))
    facts = Sample(columns=columns, rows=1000, different=1000)
    source = replace(origin(), sequence="at")
    counts = {names: 1000 if len(names) > 1 else 900 for names in sets_to_count(source, facts, "items")}

    found = inferred(source, facts, "items", counts, datetime(2026, 1, 7, tzinfo=UTC))

    assert (found.keys, found.sequence, found.write) == (("item_id",), "at", "Merge()")
    assert found.keys_why == "900 keys in 1,000 rows, and each once per value of at: several versions of a key"


def test_the_order_is_a_time_of_the_last_change_that_is_never_null_or_a_number_that_counts() -> None:
    columns = [
        column("order_id", T.LongType()),
        column("created_at", T.TimestampType()),
        column("version", T.LongType()),
    ]
    types = {one.name: one.native for one in [*columns, column("updated_at", T.TimestampType())]}
    assert sequence_of([*columns, column("updated_at", T.TimestampType())], types) == "updated_at"
    assert sequence_of([*columns, column("updated_at", T.TimestampType(), nulls=1)], types) == "version"
    assert sequence_of(columns[:1], types) is None


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"name": "customerEmail"}, "personal by its name (email)"),
        ({"name": "last_name"}, "personal by its name (last, name)"),
        ({"name": "contact", "emails": 900}, "personal by its values: 900 of 1,000 are e-mail addresses"),
        ({"name": "host", "ips": 501}, "personal by its values: 501 of 1,000 are IP addresses"),
        ({"name": "product_name"}, ""),
        ({"name": "shipped"}, ""),
    ],
)
def test_personal_columns_are_known_by_name_and_by_the_form_of_values(facts: Mapping[str, Any], why: str) -> None:
    assert why_personal(column(**facts), "orders") == why


def test_whose_name_a_column_has_is_a_question_unless_the_table_is_of_persons() -> None:
    assert why_personal(column("name"), "customers") == "personal by its name (name)"
    assert (why_personal(column("name"), "products"), may_be_personal(column("name"))) == ("", True)


@pytest.mark.parametrize(
    ("files", "path", "cadence"),
    [
        (["/in/orders/2026-01-05.csv", "/in/orders/2026-01-06.csv"], "/in/orders/{window:%Y-%m-%d}.csv", "daily"),
        (["/in/2026-01-05/part-1.json.gz", "/in/2026-01-05/part-2.json.gz", "/in/2026-01-06/part-1.json.gz"],
         "/in/{window:%Y-%m-%d}/part-*.json.gz", "daily"),
        (["/in/year=2026/month=01/day=05/a.parquet", "/in/year=2026/month=01/day=06/b.parquet"],
         "/in/year={window:%Y}/month={window:%m}/day={window:%d}/*.parquet", "daily"),
        (["/in/flights_2013-01.csv", "/in/flights_2013-02.csv", "/in/airports.csv"], "/in/flights_{window:%Y-%m}.csv",
         "monthly"),
        (["/in/events-2026010507.json", "/in/events-2026010508.json"], "/in/events-{window:%Y%m%d%H}.json", "hourly"),
        (["/in/orders_20260105_001.csv", "/in/orders_20260105_002.csv"], "/in/orders_{window:%Y%m%d}_*.csv", "daily"),
        (["/in/a.csv", "/in/b.csv", "/in/read.me"], "/in/*.csv", None),
    ],
)  # fmt: skip
def test_the_pattern_of_files_is_found_from_the_dates_in_their_names(
    files: list[str], path: str, cadence: str | None
) -> None:
    found = named(files, "/in")
    assert (found.path, found.cadence) == (path, cadence)


def test_a_date_that_does_not_exist_is_no_window() -> None:
    found = named(["/in/2026-02-28.csv", "/in/2026-02-31.csv"], "/in")
    assert found.windows == (datetime(2026, 2, 28),)


def test_a_place_is_what_a_person_would_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.csv").touch()
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", "postgresql://db.example.com:5432/shop")
    monkeypatch.setenv("INCLOAD_KAFKA_BUS_SERVERS", "broker:9092")
    for name in ("URL", "USER", "PASSWORD"):
        monkeypatch.setenv(f"INCLOAD_DATABASE_CRM_{name}", "")
    assert place_of("shop.csv", tmp_path) == FilesAt(f"{tmp_path}/shop.csv")
    assert place_of("s3a://bucket/orders", tmp_path) == FilesAt("s3://bucket/orders")
    assert place_of("shop.public.orders", tmp_path) == TableAt("shop", "public.orders")
    assert place_of("postgresql://me@db.example.com/shop/public.orders", tmp_path) == TableAt("shop", "public.orders")
    assert place_of("bus.orders.v1", tmp_path) == TopicAt("bus", "orders.v1")
    assert place_of("kafka://broker:9092/orders", tmp_path) == TopicAt("bus", "orders")
    made = place_of("postgresql://me:hush@db.example.com/crm/people", tmp_path)
    assert made == TableAt("crm", "people", (
        "INCLOAD_DATABASE_CRM_URL=postgresql://db.example.com:5432/crm", "INCLOAD_DATABASE_CRM_USER=me",
        "INCLOAD_DATABASE_CRM_PASSWORD=<the password, or secret:NAME>",
    ))  # fmt: skip


def test_a_table_of_mariadb_is_a_place_by_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "USER", "PASSWORD"):
        monkeypatch.setenv(f"INCLOAD_DATABASE_WEBSHOP_{name}", "")
    made = place_of("mariadb://me:hush@db.example.com/webshop/orders", tmp_path)
    assert made == TableAt("webshop", "orders", (
        "INCLOAD_DATABASE_WEBSHOP_URL=mariadb://db.example.com:3306/webshop", "INCLOAD_DATABASE_WEBSHOP_USER=me",
        "INCLOAD_DATABASE_WEBSHOP_PASSWORD=<the password, or secret:NAME>",
    ))  # fmt: skip
    assert place_of("mysql://db.example.com/webshop/orders", tmp_path) == TableAt("webshop", "orders")


def test_a_place_that_is_none_is_refused_with_the_forms_and_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(IncrementalLoadError, match=r"none of these.*DATABASE\.TABLE.*INCLOAD_DATABASE_<NAME>_URL"):
        place_of("nowhere.orders", tmp_path)
    with pytest.raises(IncrementalLoadError, match="lacks the host, the database or the table") as refused:
        place_of("postgresql://me:hush@db/shop", tmp_path)
    assert "hush" not in str(refused.value)


def test_names_and_types_are_spelled_as_python_that_declares_them() -> None:
    assert [identifier(name) for name in ("order_id", "class", "1st", "T", "Betrag €", "validate", "a-b")] == [
        "order_id", "class_", "column_1st", "T_", "Betrag", "validate_", "a_b"]  # fmt: skip
    assert identifier("a b", {"a_b"}) == "a_b_"
    assert [class_name(name) for name in ("orders", "order_lines", "categories", "status", "news")] == [
        "Order", "OrderLine", "Category", "Status", "New"]  # fmt: skip
    lines = T.ArrayType(T.StructType([T.StructField("price", T.DecimalType(10, 2))]))
    assert type_text(lines) == 'T.ArrayType(T.StructType([T.StructField("price", T.DecimalType(10, 2))]))'
    assert type_options(T.MapType(TEXT, T.LongType())) == (
        '{"keyType": T.StringType(), "valueType": T.LongType(), "valueContainsNull": True}'
    )
    assert why_left_out("Unit Price") == "Delta accepts no ' ' in names"


def test_types_of_json_are_taken_from_sparks_description_with_room_for_more_digits() -> None:
    assert of_variant("OBJECT<`OBJECT<`: VOID, n: OBJECT<x: DECIMAL(2,1), y: ARRAY<DECIMAL(18,17)>>, m: VARIANT>") == (
        "STRUCT<`OBJECT<`: STRING, n: STRUCT<x: DECIMAL(12,2), y: ARRAY<DOUBLE>>, m: STRING>"
    )


def test_the_newest_change_is_said_by_its_age() -> None:
    at = column("updated_at", T.TimestampType(), newest="2026-01-05 09:57:00")
    assert sequence_why(at, datetime(2026, 1, 5, 10, tzinfo=UTC)) == "never NULL, newest 3 min ago"

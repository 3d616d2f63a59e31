"""Personal values are hashed, masked or dropped before anything keeps or shows a record."""

import hmac
import json
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyarrow as arrow
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, Dropped, Files, Hashed, Masked, Quarantine, incremental_asset
from incload_assets.change_log.context import LoadContext
from incload_assets.contract.protection import Protection
from incload_assets.declaration.window import window_of
from incload_assets.load.replay import replay_window, unreplayable
from incload_assets.platform.errors import DeclarationError, SchemaMismatch, SourceUnreadable
from incload_assets.platform.protection_keys import protection_key
from incload_assets.platform.settings import Settings
from incload_assets.protection.protect import token
from incload_assets.protection.row_key import key_of
from incload_assets.restore.adopt import adopt
from tests.support.file_texts import texts
from tests.support.tables import DAYS, Loaded, day, make
from tests.support.watched import Watched

CRM = Hashed(key="crm")
KEY = "a key of at least 32 characters, made up"
TOLERANT = Quarantine(max_share=0.9)
MARKER = "Ada-Lovelace"
"""A part of every personal value."""
NUMBERED = T.StructType([T.StructField("n", T.LongType())])
ROWS = arrow.schema(
    [
        *((name, arrow.string()) for name in ("id", "email", "card", "kind", "hobby")),
        ("born", arrow.date32()),
        ("seq", arrow.int64()),
    ]
)
LANDING = "{landing}/items/{window:%Y-%m-%d}."


class Person(pa.DataFrameModel):
    """A person whose values are protected in each way."""

    id: T.StringType = pa.Field(nullable=False, metadata={"personal": CRM})
    email: T.StringType = pa.Field(nullable=True, str_matches="[^@]+@", metadata={"personal": CRM})
    card: T.StringType = pa.Field(nullable=True, metadata={"personal": Masked(keep=4)})
    born: T.DateType = pa.Field(nullable=True, metadata={"personal": Dropped()})
    kind: T.StringType = pa.Field(nullable=True, isin=["a", "b"])
    tags: T.ArrayType = pa.Field(
        nullable=True, dtype_kwargs={"elementType": T.StructType([T.StructField("n", T.LongType())])}
    )
    seq: T.LongType = pa.Field(nullable=True)


class LenientPerson(Person):
    """The same with any kind."""

    kind: T.StringType = pa.Field(nullable=True)


class OnlyId(pa.DataFrameModel):
    """What a second table has of a person."""

    id: T.StringType = pa.Field(nullable=False, metadata={"personal": CRM})
    seq: T.LongType = pa.Field(nullable=True)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_KEY_CRM", KEY)


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    return tmp_path / "landing" / "items"


def person(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{MARKER}-{number}",
        "email": f"{MARKER}-{number}@example.org",
        "card": f"{MARKER}-4567-{number:04d}",
        "born": "1815-12-10",
        "kind": "a",
        "seq": number,
    } | more


def deliver(landing: Path, number: int, lines: list[str], kind: str) -> None:
    path = landing / f"{day(number)}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def table_of(spark: SparkSession, folder: Path, kind: str, contract: type = Person, **options: Any) -> Loaded:
    source = Files(LANDING + kind)
    changes = Changes(keys=["id"], sequence_by=["seq"])
    return make(
        spark, folder / "lake", source=source, contract=contract, changes=changes, quarantine=TOLERANT, **options
    )


def crm(value: str) -> str:
    return token(CRM, value)


def test_a_token_is_the_hmac_that_the_standard_defines_in_spark_and_without(
    spark: SparkSession, tmp_path: Path, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for secret in (KEY, "k" * 64, "ä long key " * 20):
        monkeypatch.setenv("INCLOAD_KEY_CRM", secret)
        deliver(landing, 1, [json.dumps(person(n, id=value)) for n, value in enumerate(["a", "ä ß 猫", " "])], "json")
        table = table_of(spark, tmp_path / str(len(secret)), "json")
        table.load(1)
        digests = {hmac.new(secret.encode(), value.encode(), sha256).hexdigest() for value in ("a", "ä ß 猫", " ")}
        assert {value.split(":")[1] for (value,) in table.rows("id")} == digests
        assert {value for (value,) in table.rows("id")} == {crm("a"), crm("ä ß 猫"), crm(" ")}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_personal_values_are_in_no_file_of_the_lake_and_all_else_is_as_ever(
    spark: SparkSession, tmp_path: Path, landing: Path, kind: str
) -> None:
    good = [person(1), person(2, email=None), person(3, card="123")]
    bad = [
        person(4, email=f"{MARKER} without a sign"),
        person(5, kind="z", hobby=f"that of {MARKER}"),
        person(6, hobby=f"that of {MARKER}"),
        person(7, born=f"in the year of {MARKER}"),
    ]
    if kind == "json":
        nested = [person(8, tags=[{"n": 1, "of": MARKER}]), person(9, tags=[{"n": MARKER}])]
        twice = json.dumps(person(10, kind="z", hobby=1, _protected=MARKER))[:-1] + f', "hobby": "{MARKER}"}}'
        lines = [json.dumps(each) for each in (*good, *bad, *nested)] + [twice, f'{{"id": "{MARKER}", broken {MARKER}']
    else:
        names = [*person(1), "hobby"]
        lines = [",".join(names)]
        lines += [",".join(str(each.get(name) or "") for name in names) for each in (*good, *bad)]
        lines += [f'{MARKER},"a quote that is not closed, {MARKER}']
    deliver(landing, 1, lines, kind)
    table = table_of(spark, tmp_path, kind)
    table.load(1)

    assert MARKER not in texts(tmp_path / "lake")
    rows = {row[0]: row[1:] for row in table.rows("id", "email", "card", "born", "kind", "seq")}
    assert rows[crm(f"{MARKER}-1")] == (crm(f"{MARKER}-1@example.org"), "****0001", None, "a", 1)
    assert rows[crm(f"{MARKER}-2")] == (None, "****0002", None, "a", 2)
    assert rows[crm(f"{MARKER}-3")][1] == "****"
    assert rows[crm(f"{MARKER}-6")][4] == 6
    assert rows[crm(f"{MARKER}-7")][2] is None
    rescued = {row[0]: row[1] for row in table.log("upsert", "seq", "_rescued")}
    assert json.loads(rescued[6])["hobby"] == "***"
    reasons = [reason for (said,) in table.log("rejected", "_reasons") for reason in said]
    assert "email: *** does not match [^@]+@" in reasons
    assert any("its text is not kept" in reason for reason in reasons)
    payloads = [json.loads(text) for (text,) in table.log("rejected", "_payload") if text]
    assert {payload["id"] for payload in payloads} >= {crm(f"{MARKER}-4"), crm(f"{MARKER}-5")}


def test_a_replay_validates_what_is_kept_and_checks_of_protected_columns_stay_as_they_were(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    lines = [
        person(1),
        person(2, kind="z", tags=[{"n": 7}]),
        person(3, email="nobody"),
        person(4, kind="z", email="no"),
    ]
    deliver(landing, 1, [json.dumps(each) for each in [*lines, person(5, kind="z", hobby=MARKER)]], "json")
    table = table_of(spark, tmp_path, "json")
    assert table.load(1).evidence.quarantined == 4
    (landing / f"{day(1)}.json").unlink()

    other = table_of(spark, tmp_path, "json", LenientPerson)
    replay_window(LoadContext(spark, other.table, other.lake), window_of(other.table.partitions_def, day(1)))
    assert {row[0] for row in other.rows("seq")} == {1, 2, 5}
    delta = other.lake.delta(other.uri)
    assert delta is not None
    [moved] = [row for row in delta.to_pyarrow_table().to_pylist() if row["seq"] == 2]
    assert (moved["id"], moved["email"]) == (crm(f"{MARKER}-2"), crm(f"{MARKER}-2@example.org"))
    assert (moved["card"], moved["tags"]) == ("****0002", [{"n": 7}])
    assert (
        sorted(reasons for (reasons,) in other.log("rejected", "_reasons"))
        == [["email: *** does not match [^@]+@"]] * 2
    )
    assert MARKER not in texts(tmp_path / "lake")


def test_payloads_from_before_the_protection_are_not_validated_again_but_replaced_by_a_load(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    class Open(Person):
        id: T.StringType = pa.Field(nullable=False)
        email: T.StringType = pa.Field(nullable=True)
        card: T.StringType = pa.Field(nullable=True)
        born: T.DateType = pa.Field(nullable=True)

    deliver(landing, 1, [json.dumps(person(1)), json.dumps(person(2, kind="z"))], "json")
    table_of(spark, tmp_path, "json", Open).load(1)
    table = table_of(spark, tmp_path, "json", LenientPerson, code_version="2")
    replay_window(LoadContext(spark, table.table, table.lake), window_of(table.table.partitions_def, day(1)))
    assert table.rows("seq") == {(1,)}
    table.load(1)
    assert table.rows("id", "seq") == {(crm(f"{MARKER}-1"), 1), (crm(f"{MARKER}-2"), 2)}


def test_the_function_of_a_table_sees_tokens_and_tables_with_the_same_key_can_be_joined(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    def copied(changes: DataFrame) -> DataFrame:
        return changes.withColumn("kind", F.when(F.col("id").startswith("crm-"), "a").otherwise("b"))

    deliver(landing, 1, [json.dumps(person(1))], "json")
    table = table_of(spark, tmp_path, "json", function=copied)
    table.load(1)
    assert table.rows("kind") == {("a",)}
    content = {day(1): [{"id": crm(f"{MARKER}-1"), "seq": "1"}, {"id": f"{MARKER}-2", "seq": "1"}]}
    again = make(spark, tmp_path / "other", content, contract=OnlyId, write=Append(), changes=Changes())
    again.load(1)
    assert again.rows("id") == {(crm(f"{MARKER}-1"),), (crm(f"{MARKER}-2"),)}, "a token is not hashed again"


def test_the_key_stands_in_no_plan(spark: SparkSession, tmp_path: Path, landing: Path) -> None:
    from incload_assets.protection.protect import protected

    deliver(landing, 1, [json.dumps(person(1))], "json")
    table = table_of(spark, tmp_path, "json")
    literal = spark.createDataFrame(
        [((None,) * 7, None, None, None)],
        "_raw struct<id: string, email: string, card: string, born: string, kind: string, tags: string, seq: string>, "
        "_payload string, _rescued string, _malformed string",
    )
    plan = protected(literal, table.table)._explain_string(extended=True)
    padded = KEY.encode().ljust(64, b"\0")
    for secret in (KEY.encode(), bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded)):
        for form in (secret.decode("latin-1"), secret.hex(), secret.hex().upper(), secret.hex(" ").upper()):
            assert form[:24] not in plan


def test_a_key_that_is_missing_short_or_given_twice_is_told_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(landing, 1, [json.dumps(person(1))], "json")
    table = table_of(spark, tmp_path, "json")
    monkeypatch.setenv("INCLOAD_KEY_CRM", "short")
    with pytest.raises(SourceUnreadable, match=r"key 'crm' .*: it has 5 characters\..*at least 32"):
        table.load(1)
    monkeypatch.delenv("INCLOAD_KEY_CRM")
    with pytest.raises(SourceUnreadable, match="neither INCLOAD_KEY_CRM nor INCLOAD_KEY_CRM_FILE is set"):
        protection_key("crm")
    file = tmp_path / "crm"
    file.write_text(f"{KEY}\n")
    monkeypatch.setenv("INCLOAD_KEY_CRM_FILE", str(file))
    assert protection_key("crm") == KEY.encode()
    monkeypatch.setenv("INCLOAD_KEY_CRM", KEY)
    with pytest.raises(SourceUnreadable, match="are both set"):
        protection_key("crm")


def test_a_person_names_a_row_by_the_value_itself(spark: SparkSession, tmp_path: Path, landing: Path) -> None:
    table = table_of(spark, tmp_path, "json").table
    assert key_of(table, ["id=Ada"]) == {"id": crm("Ada")} == key_of(table, [f"id={crm('Ada')}"])


def test_a_table_with_values_in_clear_is_not_adopted(spark: SparkSession, tmp_path: Path, landing: Path) -> None:
    table = make(spark, tmp_path / "lake", contract=OnlyId, changes=Changes(keys=["id"], sequence_by=["seq"]))
    spark.createDataFrame([("Ada", 1), (crm("Bo"), 1)], "id string, seq long").write.format("delta").save(table.uri)
    with pytest.raises(SchemaMismatch, match=r"1 value of id not as Hashed\(key='crm'\) makes them"):
        adopt(LoadContext(spark, table.table, table.lake))


@pytest.mark.parametrize(
    ("protection", "declared", "told"),
    [
        (Masked(), {"keys": ["value"]}, "'value' identifies rows, and is Masked"),
        (Dropped(), {"keys": ["value"]}, "'value' identifies rows, and is Dropped"),
        (CRM, {"keys": ["id"], "sequence_by": ["value"]}, "sequence_by names 'value', which is Hashed"),
    ],
)
def test_a_protection_that_would_make_rows_one_or_change_their_order_is_refused(
    spark: SparkSession, tmp_path: Path, protection: Protection, declared: dict[str, Any], told: str
) -> None:
    class Wrong(pa.DataFrameModel):
        id: T.StringType = pa.Field(nullable=True)
        value: T.StringType = pa.Field(nullable=True, metadata={"personal": protection})
        seq: T.LongType = pa.Field(nullable=True)

    with pytest.raises(DeclarationError, match=told):
        make(spark, tmp_path, contract=Wrong, changes=Changes(**{"sequence_by": ["seq"]} | declared))


def test_a_protection_that_does_not_fit_its_field_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    class Numbered(pa.DataFrameModel):
        id: T.StringType = pa.Field(nullable=True)
        seq: T.LongType = pa.Field(nullable=True, metadata={"personal": CRM})

    class Absent(pa.DataFrameModel):
        id: T.StringType = pa.Field(nullable=False, metadata={"personal": Dropped()})

    with pytest.raises(
        DeclarationError, match=r"seq is bigint, and its values are hashed.*Remedy: declare it as T.String"
    ):
        make(spark, tmp_path, contract=Numbered)
    with pytest.raises(DeclarationError, match="id is dropped and not nullable"):
        make(spark, tmp_path, contract=Absent)
    with pytest.raises(ValueError, match="letters, digits and _"):
        Hashed(key="Not a name")
    with pytest.raises(ValueError, match="from 0 to 8"):
        Masked(keep=9)


def test_typed_records_are_protected_and_their_payloads_are_not_validated_again(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    rows = [person(1) | {"born": date(1815, 12, 10)}, person(2, kind="z") | {"born": None, "hobby": MARKER}]
    landing.mkdir(parents=True)
    pq.write_table(arrow.Table.from_pylist(rows, schema=ROWS), landing / f"{day(1)}.parquet")
    table = table_of(spark, tmp_path, "parquet")
    assert table.load(1).evidence.quarantined == 1
    assert table.rows("id", "email", "card", "born") == {
        (crm(f"{MARKER}-1"), crm(f"{MARKER}-1@example.org"), "****0001", None)
    }
    assert MARKER not in texts(tmp_path / "lake")
    assert "of a table with protected columns only texts are kept" in unreplayable(table.table)


def test_the_text_that_stands_for_an_unavailable_value_is_none(
    spark: SparkSession, tmp_path: Path, landing: Path
) -> None:
    changes = Changes(keys=["id"], sequence_by=["seq"], unavailable="__unavailable")
    deliver(landing, 1, [json.dumps(person(1)), json.dumps(person(1) | {"seq": 2, "email": "__unavailable"})], "json")
    table = make(spark, tmp_path / "lake", source=Files(LANDING + "json"), contract=Person, changes=changes)
    table.load(1)
    assert table.rows("email", "seq") == {(crm(f"{MARKER}-1@example.org"), 2)}


def test_dagster_keeps_no_personal_value_of_loads_that_succeed_or_fail(
    spark_settings: Settings, tmp_path: Path, landing: Path
) -> None:
    good = [person(number, hobby=MARKER) for number in range(5)]
    bad = [person(6, email=MARKER), person(7, born=MARKER, email="x"), person(8, email=MARKER, tags=MARKER)]
    deliver(landing, 1, [json.dumps(each) for each in [*good, bad[0]]], "json")
    deliver(landing, 2, [*map(json.dumps, bad), MARKER], "json")
    (tmp_path / "dagster").mkdir()

    def people(changes: DataFrame) -> DataFrame:
        return changes

    asset = incremental_asset(
        partitions_def=DAYS,
        source=Files(LANDING + "json"),
        contract=Person,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
    )(people)
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        watched = Watched(tmp_path, spark_settings, instance, [asset])
        watched.load(day(1))
        failed = watched.run(day(2))
    assert not failed.success
    said = texts(tmp_path / "dagster")
    assert "email: *** does not match" in said and MARKER not in said
    assert MARKER not in texts(tmp_path / "lake")

"""Values that are tokenized or encrypted on extraction, and read again by whoever has the keys."""

import base64
import hmac
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Encrypted, Files, Hashed, Quarantine, Subject, Tokenized
from incload_assets.checks.source_comparison import Content, content_of, source_rows
from incload_assets.declaration.window import window_of
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import fingerprints_of
from incload_assets.erasure.person_search import files_with_keys
from incload_assets.load.detection import detect
from incload_assets.platform.errors import (
    ConcurrentLoad,
    DeclarationError,
    IncrementalLoadError,
    SourceChanged,
    SourceUnreadable,
)
from incload_assets.platform.lake import Lake
from incload_assets.platform.protection_keys import protection_key, sealed
from incload_assets.protection import person
from incload_assets.protection.erasures import NOBODY, fingerprint
from incload_assets.protection.person_keys import (
    PERSON,
    PersonKeys,
    keys_of_persons,
)
from incload_assets.protection.protect import token
from incload_assets.protection.reveal import revealed
from incload_assets.protection.row_key import key_of
from incload_assets.what_if.preview import preview
from tests.protection.test_person_keys import secrets
from tests.support.file_texts import texts
from tests.support.tables import Item, Loaded, day, make

MARKER = "Ada-Lovelace"
TOLERANT = Quarantine(max_share=0.9)


class Member(pa.DataFrameModel):
    """A member, whose person is a token."""

    id: T.StringType = pa.Field(nullable=False)
    person: T.StringType = pa.Field(nullable=True, metadata={"personal": Tokenized(key="crm")})
    email: T.StringType = pa.Field(nullable=True, str_contains="@", metadata={"personal": Encrypted(key="crm")})
    city: T.StringType = pa.Field(nullable=True, metadata={"personal": Encrypted(key="crm")})
    seq: T.LongType = pa.Field(nullable=True)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_KEY_CRM", "a key of at least 32 characters, made up")
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "another key of at least 32 characters")


def member(id: str, person: str | None, seq: int, **more: Any) -> dict[str, Any]:
    named = {"email": f"{MARKER}-{person}@example.org", "city": f"{MARKER}-town"}
    return {"id": id, "person": None if person is None else f"{MARKER}-{person}", "seq": seq} | named | more


def table_of(spark: SparkSession, folder: Path, days: dict[int, list[dict[str, Any]]], **options: Any) -> Loaded:
    for number, rows in days.items():
        path = folder / "landing" / f"{day(number)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    usual: dict[str, Any] = {
        "source": Files(f"{folder}/landing/{{window:%Y-%m-%d}}.json"),
        "contract": Member,
        "subject": Subject("person", by="person"),
        "changes": Changes(keys=["id"], sequence_by=["seq"]),
        "quarantine": TOLERANT,
    }
    return make(spark, folder / "lake", **usual | options)


def in_clear(table: Loaded, root: str | None = None) -> dict[str, tuple[Any, ...]]:
    """The rows of the table by id, with their values in clear."""
    lake = Lake(root or table.lake.root)
    rows = table.spark.read.format("delta").load(lake.table_uri(table.table.key.path))
    shown = revealed(rows, table.table, lake).select("id", "person", "email", "city")
    return {row["id"]: tuple(row)[1:] for row in shown.collect()}


def opened(kept: str, value_of: bytes) -> str:
    """An encrypted value, decrypted with the library for it and the secret of its person."""
    box = kept.rpartition(".")[2]
    binary = base64.urlsafe_b64decode(box + "=" * (-len(box) % 4))
    key = hmac.digest(protection_key("crm"), b"\xffkey\xffcrm\xff" + value_of, "sha256")
    return AESGCM(key).decrypt(binary[:12], binary[12:], None).decode()


@contextmanager
def compared(table: Loaded, number: int) -> Iterator[Content]:
    """The content that a comparison finds at the source."""
    window = window_of(table.table.partitions_def, day(number))
    position = detect(table.context(), [window])[window.key]
    with source_rows(table.spark, table.table, table.lake, window, position) as rows:
        yield content_of(rows)


def test_values_are_in_no_file_and_whoever_has_the_keys_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        member("a", "1", 1),
        member("b", "1", 2),
        member("c", "2", 3),
        member("d", "2", 4, city=None),
        member("e", "3", 5, email=MARKER),  # breaks a check
        member("f", "ä ß 猫", 6),
    ]
    table = table_of(spark, tmp_path, {1: rows})
    table.load(1)

    assert MARKER not in texts(tmp_path / "lake")
    town = f"{MARKER}-town"
    assert in_clear(table) == {
        "a": (f"{MARKER}-1", f"{MARKER}-1@example.org", town),
        "b": (f"{MARKER}-1", f"{MARKER}-1@example.org", town),
        "c": (f"{MARKER}-2", f"{MARKER}-2@example.org", town),
        "d": (f"{MARKER}-2", f"{MARKER}-2@example.org", None),
        "f": (f"{MARKER}-ä ß 猫", f"{MARKER}-ä ß 猫@example.org", town),
    }
    kept = {row[0]: row[1:] for row in table.rows("id", "person", "email", "city")}
    assert kept["a"] == kept["b"], "equal values of a person are encrypted alike"
    assert kept["a"][2] != kept["c"][2], "equal values of two persons are not"
    of_persons = secrets(tmp_path / "lake")
    assert len(of_persons) == len(set(of_persons.values())) == 4
    assert {len(one) for one in of_persons.values()} == {36}
    assert opened(kept["c"][1], of_persons[fingerprint(f"{MARKER}-2")]) == f"{MARKER}-2@example.org"
    assert [reason for (said,) in table.log("rejected", "_reasons") for reason in said] == [
        "email: *** does not contain @"
    ]


def test_a_token_is_made_alike_in_spark_and_without_and_names_a_row(spark: SparkSession, tmp_path: Path) -> None:
    rows = [member(str(number), person, number) for number, person in enumerate(["1", "ä ß 猫", "x" * 200])]
    table = table_of(spark, tmp_path, {1: rows})
    table.load(1)
    protection = Tokenized(key="crm")
    names = {f"{MARKER}-{person}" for person in ("1", "ä ß 猫", "x" * 200)}
    assert {person for (person,) in table.rows("person")} == {token(protection, name) for name in names}
    assert {opened(sealed("crm", protection_key("crm"), name), b"") for name in names} == names

    class ByPerson(Item):
        id: T.StringType = pa.Field(nullable=False, metadata={"personal": protection})

    keyed = make(spark, tmp_path / "keyed", contract=ByPerson)
    assert key_of(keyed.table, [f"id={MARKER}-1"]) == {"id": token(protection, f"{MARKER}-1")}


def test_a_repeated_load_changes_nothing_and_the_source_is_found_to_be_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1), member("b", "2", 2)]})
    report = table.load(1)
    before, keys = table.rows(), secrets(tmp_path / "lake")
    again = table_of(spark, tmp_path, {}, code_version="another").load(1)
    assert again.ingested
    assert (table.rows(), secrets(tmp_path / "lake")) == (before, keys)
    assert (again.merged.inserted, again.merged.updated, again.merged.deleted) == (0, 0, 0)
    with compared(table, 1) as same:
        pass
    assert report.evidence.quarantined == 0 and same.upserts == 2
    log = spark.read.format("delta").load(table.lake.log_uri(table.table.key.path)).filter("_kind = 'upsert'")
    assert content_of(log).hash == same.hash


def test_without_the_persons_key_nobody_reads_a_value_in_any_copy_of_the_lake(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_PERSON_KEYS", str(tmp_path / "keys"))
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1), member("b", "2", 2)]})
    table.load(1)
    assert not [*(tmp_path / "lake/_person_keys").rglob("*.parquet")]
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    before = in_clear(table)
    found = fingerprints_of([table.table], "person", f"{MARKER}-1")
    with dg.instance_for_test() as instance:
        done = Eraser(spark, table.lake, [table.table], "person", found).erase(instance)
    assert done.is_proven and done.keys == 1
    assert in_clear(table) == {"b": before["b"]}
    copied = in_clear(table, str(tmp_path / "copy"))
    assert copied["b"] == before["b"]
    assert copied["a"] == (f"{MARKER}-1", None, None), "the token can be read with its key, encrypted values cannot"
    assert len(list((tmp_path / "keys").rglob("part-*.parquet"))) == 1, "the file with the key is gone, too"


def test_a_key_that_a_load_or_a_compaction_made_meanwhile_goes_too_and_one_that_stays_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1), member("b", "2", 2)]})
    table.load(1)
    found = fingerprints_of([table.table], "person", f"{MARKER}-1")
    store, before = tmp_path / "lake/_person_keys", tmp_path / "before"
    shutil.copytree(store, before)
    person = spark.createDataFrame([(one,) for one in found], f"{PERSON} string")
    parts = {one[-2:] for one in found}
    [kept] = [path for part in parts for path in before.rglob(f"part={part}/*.parquet")]
    orphan = store / kept.relative_to(before).parent / "part-orphan.parquet"

    def late(*_: object) -> int:
        with keys_of_persons(table.lake, "person", person, NOBODY, create=True):
            pass
        shutil.copy(kept, orphan)
        return 0

    monkeypatch.setattr(Eraser, "_rewrite_former", late)
    with dg.instance_for_test() as instance:
        done = Eraser(spark, table.lake, [table.table], "person", found).erase(instance)
    assert done.is_proven and done.keys == 1 + len(found)
    assert set(secrets(tmp_path / "lake")) == {fingerprint(f"{MARKER}-2")}
    assert files_with_keys(table.lake, found) == []
    orphan.parent.mkdir(exist_ok=True)
    shutil.copy(kept, orphan)
    assert files_with_keys(table.lake, found) == [str(orphan)]


def test_keys_that_are_elsewhere_are_not_made_again_and_no_erasure_overlooks_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_PERSON_KEYS", str(tmp_path / "keys"))
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1)], 2: [member("b", "1", 2)]})
    table.load(1)
    found = fingerprints_of([table.table], "person", f"{MARKER}-1")

    def refused(told: str) -> None:
        with pytest.raises(SourceUnreadable, match=told):
            table.load(2)
        with dg.instance_for_test() as instance, pytest.raises(SourceUnreadable, match=told):
            Eraser(spark, table.lake, [table.table], "person", found).erase(instance)
        assert table.rows("id") == {("a",)}

    monkeypatch.delenv("INCLOAD_PERSON_KEYS")
    refused("elsewhere, and INCLOAD_PERSON_KEYS is not set")
    monkeypatch.setenv("INCLOAD_PERSON_KEYS", str(tmp_path / "others"))
    refused(f"{tmp_path}/others, where the keys of persons of this lake are not")
    shutil.rmtree(tmp_path / "lake/_person_keys")
    shutil.copytree(tmp_path / "keys", tmp_path / "lake/_person_keys")
    refused("but the keys of persons are in")
    monkeypatch.delenv("INCLOAD_PERSON_KEYS")  # they were moved into the lake
    table.load(2)
    assert in_clear(table)["a"][1] == in_clear(table)["b"][1] == f"{MARKER}-1@example.org"


def test_a_person_who_was_erased_gets_no_key_when_the_source_sends_the_person_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1), member("b", "2", 2)]})
    table.load(1)
    found = fingerprints_of([table.table], "person", f"{MARKER}-1")
    with dg.instance_for_test() as instance:
        Eraser(spark, table.lake, [table.table], "person", found).erase(instance)
    table_of(spark, tmp_path, {2: [member("c", "1", 3), member("d", "3", 4)]})
    assert table.load(2).record.erased == 1
    assert set(in_clear(table)) == {"b", "d"}
    assert len(secrets(tmp_path / "lake")) == 2


def test_a_value_without_a_person_goes_to_quarantine_and_is_kept_nowhere(spark: SparkSession, tmp_path: Path) -> None:
    nobody = member("a", None, 1, email=f"{MARKER}@example.org")
    table = table_of(spark, tmp_path, {1: [nobody, member("b", None, 2, email=None, city=None), member("c", "3", 3)]})
    table.load(1)
    assert {id for (id,) in table.rows("id")} == {"b", "c"}
    ((reasons, payload),) = table.log("rejected", "_reasons", "_payload")
    said = "*** cannot be encrypted, as person is NULL or not given"
    assert reasons == [f"{name}: {said}" for name in ("email", "city")]
    with compared(table, 1) as found:
        assert (found.upserts, found.rejected) == (2, 1), "a comparison rejects what a load rejects"
    assert MARKER not in texts(tmp_path / "lake") and json.loads(payload)["email"] == "****"


def test_a_persons_other_names_do_not_bring_the_person_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Before(Member):
        person: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed(key="crm")})

    days = {1: [member("a", "1", 1), member("b", "2", 2)], 2: [member("c", "1", 3), member("d", "2", 4)]}
    before = table_of(spark, tmp_path, days, contract=Before)
    before.load(1)
    keys = secrets(tmp_path / "lake")
    found = fingerprints_of([before.table], "person", f"{MARKER}-1")
    with dg.instance_for_test() as instance:
        assert Eraser(spark, before.lake, [before.table], "person", found).erase(instance).keys == 1
    after = table_of(spark, tmp_path, days)  # the person is tokenized now, so the token is another one
    assert after.load(2).record.erased == 1
    monkeypatch.setenv("INCLOAD_KEY_CRM", "a new key of at least 32 characters, made up")
    again = table_of(spark, tmp_path, days, code_version="another").load(2)
    assert again.ingested and again.record.erased == 1
    assert {id for (id,) in after.rows("id")} == {"b", "d"}
    assert secrets(tmp_path / "lake") == {one: keys[one] for one in [fingerprint(f"{MARKER}-2")]}


def test_a_person_whom_the_function_changes_is_refused_as_nobody_could_find_the_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    class Clear(Member):
        person: T.StringType = pa.Field(nullable=True, metadata={"personal": True})

    rows = [
        member("a", "1", 1),
        member("b", "1", 2, email=None, city=None),
        member("c", None, 3, email=None, city=None),
    ]
    table = table_of(
        spark, tmp_path, {1: rows}, contract=Clear, function=lambda rows: rows.withColumn("person", F.upper("person"))
    )
    table.load(1)
    assert {id for (id,) in table.rows("id")} == {"b", "c"}
    told = "*** cannot be encrypted, as the table's function changes person"
    assert table.log("rejected", "_reasons") == [([f"email: {told}", f"city: {told}"],)]


def test_a_text_that_only_looks_like_a_token_is_protected_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    forged = f"crm-00000000:e.{'0' * 24}.{MARKER}"
    token_like = f"crm-00000000:t.{MARKER}"
    good = sealed("crm", protection_key("crm"), f"{MARKER}-2")
    rows = [
        member("a", "1", 1, email=forged, city=forged),
        member("b", "1", 2) | {"person": token_like},
        member("c", "1", 3) | {"person": good},
    ]
    table = table_of(spark, tmp_path, {1: rows})
    table.load(1)
    assert MARKER not in texts(tmp_path / "lake")
    assert table.log("rejected", "_reasons") == [(["email: *** does not contain @"],)]
    assert {id: person for id, (person, *_) in in_clear(table).items()} == {"b": token_like, "c": f"{MARKER}-2"}


def test_a_person_who_comes_while_the_source_is_read_fails_the_load_which_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def keys_before_the_person_came(*given: Any, **named: Any) -> Iterator[PersonKeys]:
        with keys_of_persons(*given, **named) as found:
            yield replace(found, rows=found.rows.filter("false"))

    table = table_of(spark, tmp_path, {1: [member("a", "1", 1)]})
    with monkeypatch.context() as race:
        race.setattr(person, "keys_of_persons", keys_before_the_person_came)
        with pytest.raises(SourceChanged, match="persons came to the source between") as told:
            table.load(1)
    assert told.value.transient
    assert MARKER not in texts(tmp_path / "lake")
    table.load(1)
    assert set(in_clear(table)) == {"a"}


def test_another_key_of_erasures_is_refused_before_a_person_gets_a_second_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1)], 2: [member("b", "1", 2)]})
    table.load(1)
    keys = secrets(tmp_path / "lake")
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "a third key of at least 32 characters")
    with pytest.raises(SourceUnreadable, match=r"keys of persons are kept under the key erasure-.*give the same key"):
        table.load(2)
    assert secrets(tmp_path / "lake") == keys


def test_a_file_of_keys_that_an_erasure_removed_under_a_load_is_told_and_the_load_can_be_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1)], 2: [member("b", "1", 2)]})
    table.load(1)
    (file,) = (tmp_path / "lake/_person_keys").rglob("part-*.parquet")
    aside = file.rename(tmp_path / "aside")
    with pytest.raises(ConcurrentLoad, match="a file of keys of persons, was replaced while the load read it"):
        table.load(2)
    aside.rename(file)
    table.load(2)
    assert set(in_clear(table)) == {"a", "b"}


def test_a_preview_gives_nobody_a_key(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1)], 2: [member("b", "2", 2)]})
    table.load(1)
    window = window_of(table.table.partitions_def, day(2))
    with preview(spark, table.table, table.lake, window) as shown:
        assert (shown.report.merged.inserted, shown.report.record.rejected) == (1, 0)
    assert len(secrets(tmp_path / "lake")) == 1


def test_an_encryption_that_nobody_could_keep_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    class ByEmail(Item):
        id: T.StringType = pa.Field(nullable=False, metadata={"personal": Encrypted(key="crm")})

    def declared(**options: Any) -> Loaded:
        return table_of(spark, tmp_path, {}, **options)

    with pytest.raises(DeclarationError, match=r"'email' is Encrypted\(key='crm'\), and the table has no subject"):
        declared(subject=None)
    with pytest.raises(DeclarationError, match=r"subject.by is 'city', which is Encrypted"):
        declared(subject=Subject("person", by="city"))
    with pytest.raises(DeclarationError, match="'id' identifies rows, and is Encrypted"):
        declared(contract=ByEmail, subject=Subject("person", by="value"))
    with pytest.raises(ValueError, match=r"Encrypted\(key='Not a name'\)"):
        Encrypted(key="Not a name")
    plain = make(spark, tmp_path / "plain")
    with pytest.raises(IncrementalLoadError, match="items has no tokenized or encrypted column"):
        revealed(spark.createDataFrame([], plain.table.schema), plain.table, plain.lake)


def test_no_plan_shows_a_key_or_a_secret(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, tmp_path, {1: [member("a", "1", 1)]})
    table.load(1)
    rows = spark.read.format("delta").load(table.uri)
    shown = revealed(rows, table.table, table.lake)
    plan = shown._explain_string(extended=True)
    (secret,) = secrets(tmp_path / "lake").values()
    for hidden in ("a key of at least", "another key of", secret.hex(), base64.b64encode(secret).decode()):
        assert hidden not in plan
    assert shown.filter(F.col("email").isNotNull()).count() == 1

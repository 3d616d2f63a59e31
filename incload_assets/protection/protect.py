"""Protection of personal values: a step between extraction and everything that keeps or shows a record.

What is declared in the contract (:mod:`incload_assets.contract.protection`) replaces the values of protected columns.
As a record may hold personal values elsewhere, too, a table with protected columns keeps

- of a record: its declared fields, in place of the text that the source delivered;
- of fields that are not declared: their names;
- of a record that cannot be parsed: its place.

The checks of protected columns are made here, on the values themselves.
"""

from collections.abc import Mapping

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.contract import MASK
from incload_assets.contract.conversion import NESTED, as_text, convert
from incload_assets.contract.protection import (
    UNENCRYPTED,
    Dropped,
    Encrypted,
    Hashed,
    Masked,
    Protection,
    Sealed,
    Tokenized,
    Tokens,
)
from incload_assets.declaration.source import PRESENT
from incload_assets.declaration.table import Table
from incload_assets.platform.protection_keys import protection_key, sealed
from incload_assets.platform.protection_keys import token as token_of_value
from incload_assets.platform.sql import col
from incload_assets.protection.erasures import NOBODY, DenyList
from incload_assets.protection.person import LATE, person_of, raw_types, with_erased, with_own_keys, with_person
from incload_assets.protection.person_keys import ID, PERSON, SECRET, PersonKeys
from incload_assets.protection.tokens import Person, opened_column, sealed_column, token_column, without_keys
from incload_assets.sources.files.csv import csv_payloads
from incload_assets.sources.kafka.framed import FRAMED
from incload_assets.sources.upstream.tables import Tables

VALIDATED = "_validated"
"""The column with the reasons of checks of protected columns; a record that has it is protected."""
MARK = "_protected"
"""The member of a kept payload that marks its values as protected."""
_MASKED = "****"
_NOT_KEPT = "the record cannot be parsed, and its text is not kept, as the table has protected columns"


def protected(
    extracted: DataFrame, table: Table, persons: PersonKeys | None = None, deny: DenyList = NOBODY
) -> DataFrame:
    """The records without the values that the contract protects; of a table without protected columns as they are.

    They also have ``_validated``, the reasons of checks of protected columns, and for erased or encrypted persons
    ``_of_person``. Without the keys of persons, no column may be encrypted. Raises SourceUnreadable.
    """
    protections = table.contract.protections
    if not protections or VALIDATED in extracted.columns:
        return extracted
    types = raw_types(extracted)
    extracted = with_own_keys(extracted, table, deny)
    if table.subject is not None and (deny or persons is not None):
        by, person = table.subject.by, person_of(extracted, table)
        as_kept = _protected(by, person, table) if by in protections else person
        extracted = with_erased(with_person(extracted, table), as_kept, deny)
    if persons is not None:
        extracted = extracted.join(persons.rows, PERSON, "left")
    texts = {name: as_text(F.col("_raw").getField(name), kind) for name, kind in types.items()}
    members = {
        name: _protected(name, texts[name], table) if name in protections else F.col("_raw").getField(name)
        for name in types
    }
    out = extracted.withColumn(VALIDATED, _validated(texts, table, persons)).withColumn(
        "_raw", F.struct(*(member.alias(name) for name, member in members.items()))
    )
    out = out.withColumn("_rescued", names_alone(F.col("_rescued")))
    is_read = F.col("_malformed").isNull()
    kept = {
        "_payload": F.when(is_read, _payload(out, types, table)),
        # the reasons of framed messages have nothing of the message, and its source knows them by these
        "_malformed": F.when(
            ~is_read, F.when(F.col("_malformed").isin(*FRAMED), F.col("_malformed")).otherwise(_NOT_KEPT)
        ),
    }
    return without_keys(out.withColumns(kept)).drop(PERSON, ID, SECRET)


def protected_records(kept: DataFrame, table: Table) -> DataFrame:
    """The records of ``_payload``, ``_source``, ``_window`` and ``_reasons``, as :func:`protected` returned them."""
    validated = F.struct(*(_told(name).alias(name) for name in table.contract.protections)).alias(VALIDATED)
    return csv_payloads(kept, [*table.columns, *table.control_fields], validated, leave_out=[MARK])


def is_kept_protected() -> Column:
    """True if a row of the log keeps a payload that :func:`protected_records` can parse."""
    return F.coalesce(F.col("_payload").startswith(f'{{"{MARK}":'), F.lit(False))


def _told(name: str) -> Column:
    """The reason of the checks of a protected column, among the reasons of a rejected row."""
    own = F.filter("_reasons", lambda reason: reason.startswith(f"{name}: {MASK} "))
    return F.nullif(F.array_join(own, "; "), F.lit(""))


def names_alone(rescued: Column) -> Column:
    """A JSON object with masked values."""
    return F.to_json(F.transform_values(F.from_json(rescued, "map<string,string>"), lambda _, __: F.lit(MASK)))


def token(protection: Tokens, value: str) -> str:
    """The token of a value under a declared protection, made without Spark; raises SourceUnreadable without its key."""
    made = token_of_value if isinstance(protection, Hashed) else sealed
    return made(protection.key, protection_key(protection.key), value)


def is_protected(name: str, table: Table) -> Column:
    """True if a table's value of a protected column has the form that its protection gives; NULL for NULL."""
    protection = table.contract.protections[name]
    if isinstance(protection, Dropped):
        return F.when(col(name).isNotNull(), F.lit(False))
    return _has_form(col(name), protection)


def _has_form(text: Column, protection: Tokens | Encrypted | Masked) -> Column:
    return text.rlike(rf"\A{protection.form}\z")


def _protected(name: str, text: Column, table: Table) -> Column:
    protection = table.contract.protections[name]
    if isinstance(protection, Dropped):
        return F.lit(None).cast("string")
    if isinstance(protection, Masked):
        longer, tail = F.length(text) > protection.keep, F.right(text, F.lit(protection.keep))
        made = F.concat(F.lit(_MASKED), F.when(longer, tail).otherwise(""))
    elif isinstance(protection, Hashed):
        made = token_column(protection.key, text)
    elif isinstance(protection, Tokenized):
        made = sealed_column(protection.key, text)
    else:  # without a key the record is rejected, or compared with none
        of_person = Person(F.col(ID), F.col(SECRET))
        made = F.coalesce(sealed_column(protection.key, text, of_person), F.lit(_MASKED))
    return F.when(_stays(protection, text, table), text).when(text.isNotNull(), made)


def _stays(protection: Tokens | Encrypted | Masked, text: Column, table: Table) -> Column:
    """True if a text is protected already, or no value but the text that stands for one."""
    stays, unavailable = _has_form(text, protection), table.changes.unavailable
    if isinstance(protection, Sealed) and not isinstance(table.source, Tables):  # a form is easily made up
        stays = F.lit(False)
        if isinstance(protection, Tokenized):
            stays = opened_column(protection.key, text).isNotNull()
    return stays if unavailable is None else stays | (text == unavailable)


def _validated(texts: Mapping[str, Column], table: Table, persons: PersonKeys | None) -> Column:
    """Struct of the reasons why values of protected columns break their checks."""
    contract, nothing = table.contract, F.lit(None).cast("string")
    reasons = [
        (_broken(field.protection, field.name, texts, table, persons) if field.name in texts else nothing).alias(
            field.name
        )
        for field in contract.fields
        if field.protection is not None
    ]
    return F.struct(*reasons)


def _broken(
    protection: Protection, name: str, texts: Mapping[str, Column], table: Table, persons: PersonKeys | None
) -> Column:
    if isinstance(protection, Dropped):  # a check of a column that is always NULL says nothing
        return F.lit(None).cast("string")
    broken = table.contract.broken(name, texts[name])
    if isinstance(protection, Encrypted) and persons is not None:
        assert table.subject is not None
        nobody = f"{name}: {MASK} {UNENCRYPTED}, as {table.subject.by} is NULL or not given"
        without = F.when(F.col(PERSON).isNull(), nobody)
        if persons.are_complete:
            without = without.when(F.col(SECRET).isNull(), f"{name}: {MASK} {LATE}")
        broken = F.coalesce(F.when(texts[name].isNotNull(), without), broken)
    return F.when(~_stays(protection, texts[name], table), broken)


def _payload(out: DataFrame, types: Mapping[str, T.DataType], table: Table) -> Column:
    """The record as a JSON object: the fields that it has, protected, and the names of the others."""
    present = F.col(PRESENT) if PRESENT in out.columns else F.array(*map(F.lit, types))
    pairs = [
        F.struct(F.lit(name).alias("key"), _kept(name, kind, table).alias("value")) for name, kind in types.items()
    ]
    fields = F.map_filter(F.map_from_entries(F.array(*pairs)), lambda name, _: F.array_contains(present, name))
    rescued = F.map_entries(F.from_json("_rescued", "map<string,string>"))  # may have a name twice, a map may not
    rescued = F.filter(F.array_distinct(rescued), lambda entry: entry.getField("key") != MARK)
    others = F.coalesce(F.map_from_entries(rescued), F.create_map().cast("map<string,string>"))
    mark = F.create_map(F.lit(MARK), F.lit("true"))
    return F.to_json(F.map_concat(mark, fields, others), {"ignoreNullFields": "false"})


def _kept(name: str, kind: T.DataType, table: Table) -> Column:
    """A field as text; of a nested value only the declared members."""
    value, declared = F.col("_raw").getField(name), table.contract.types.get(name)
    if name in table.contract.protections:
        return value
    if not isinstance(declared, NESTED):
        return as_text(value, kind)
    typed = as_text(convert(value, kind, declared), declared)
    return F.coalesce(typed, F.when(value.isNotNull(), F.lit(MASK)))

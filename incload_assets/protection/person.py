"""The persons of records: their fingerprints, their keys, and whether they were erased.

A person is recognised by the value that the source gives, not by what the table keeps of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.conversion import as_text, convert
from incload_assets.contract.protection import UNENCRYPTED, Encrypted, Tokens
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import SourceChanged
from incload_assets.platform.lake import Lake
from incload_assets.platform.protection_keys import ERASURE, erasure_key, protection_key
from incload_assets.protection.erasures import DenyList
from incload_assets.protection.person_keys import PERSON, PersonKeys, keys_of_persons
from incload_assets.protection.tokens import token_column, with_keys

OF_PERSON = "_of_person"
"""The column that tells whether the person of a record was erased, and the person as the table has it."""
LATE = f"{UNENCRYPTED}, as the person has no key"
"""The end of the reason for which a row of a person without a key is rejected."""


@contextmanager
def person_keys_of(
    extracted: DataFrame, table: Table, lake: Lake, deny: DenyList, *, create: bool
) -> Iterator[PersonKeys | None]:
    """The keys of the persons of records; None if the table encrypts no column.

    Args:
        extracted: Records as a source's ``extract`` returns them; they are read for this.
        table: The declaration.
        lake: The lake.
        deny: Erased persons.
        create: Whether new persons get a key.

    Raises:
        SourceUnreadable: A key is missing.
        ConcurrentLoad: Others created keys first in every attempt.
    """
    if not any(isinstance(each, Encrypted) for each in table.contract.protections.values()):
        yield None
        return
    assert table.subject is not None
    persons = with_person(with_own_keys(extracted, table, deny), table).select(PERSON)
    with keys_of_persons(lake, table.subject.kind, persons, deny, create=create and lake.is_written) as found:
        yield found


def check_keys(validated: DataFrame, table: Table) -> None:
    """Refuses rows of persons who had no key yet when the records were read.

    Args:
        validated: The rows, as :func:`incload_assets.ingest.validate.validate` returns them.
        table: The declaration.

    Raises:
        SourceChanged: There are such rows.
    """
    late = validated.filter(F.exists("_reasons", lambda reason: reason.endswith(LATE))).limit(1)
    if late.count():
        raise SourceChanged(
            f"{table.name}: persons came to the source between the look for persons and the reading of their records",
            rule="a value is encrypted under a key that its person has before",
            remedy="the load is tried again",
        )


def with_own_keys(extracted: DataFrame, table: Table, deny: DenyList) -> DataFrame:
    """The records with the keys that their protection and the look for their persons need.

    Raises:
        SourceUnreadable: A key is missing.
    """
    protections = table.contract.protections.values()
    named = sorted({each.key for each in protections if isinstance(each, Tokens | Encrypted)})
    keys = {name: protection_key(name) for name in named}
    if table.subject is not None and (deny or any(isinstance(each, Encrypted) for each in protections)):
        keys[ERASURE] = erasure_key()
    return with_keys(extracted, keys)


def with_person(extracted: DataFrame, table: Table) -> DataFrame:
    """The records, each with the fingerprint of its person: of the value as the source has it, not of its token."""
    return extracted.withColumn(PERSON, token_column(ERASURE, person_of(extracted, table)))


def person_of(extracted: DataFrame, table: Table) -> Column:
    """The person of a record as text; NULL if the record does not have it."""
    assert table.subject is not None
    by, types = table.subject.by, raw_types(extracted)
    if by not in types:
        return F.lit(None).cast("string")
    value, declared, unavailable = F.col("_raw").getField(by), table.type_of(by), table.changes.unavailable
    text = as_text(convert(value, types[by], declared), declared)
    return text if unavailable is None else F.when(as_text(value, types[by]) != unavailable, text)


def with_erased(extracted: DataFrame, kept: Column, deny: DenyList) -> DataFrame:
    """The records with ``_of_person``: whether the person was erased, and the person as the table has it.

    A token tells less than the value: another key, and another protection, make another token of it.

    Args:
        extracted: Records of :func:`with_person`.
        kept: The person as the table has it: the text, or its token.
        deny: Erased persons.
    """
    is_erased = F.lit(False)
    if deny:
        denied = deny.rows(extracted.sparkSession, "_denied")
        extracted = extracted.join(denied, F.col(PERSON) == F.col("_denied"), "left")
        is_erased = F.col("_denied").isNotNull()
    return extracted.withColumn(OF_PERSON, F.struct(is_erased.alias("is_erased"), kept.alias("kept"))).drop("_denied")


def of_nobody() -> Column:
    """The column ``_of_person`` where nothing is known of the person."""
    return F.lit(None).cast("struct<is_erased: boolean, kept: string>").alias(OF_PERSON)


def raw_types(extracted: DataFrame) -> dict[str, T.DataType]:
    """The types of the fields of records."""
    raw_type = extracted.schema["_raw"].dataType
    assert isinstance(raw_type, T.StructType)
    return {field.name: field.dataType for field in raw_type.fields}

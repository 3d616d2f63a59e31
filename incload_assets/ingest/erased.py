"""Rows of erased subjects: recognised by fingerprints, wherever rows come from.

A row's subject is the value of the table's column ``subject.by``. A change that lacks it (a delete, or a change of
other columns) is recognised by its key, where that key was erased. If the subject of a rejected row cannot be read, the
words of its payload are compared.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import ERASED
from incload_assets.contract.conversion import as_text
from incload_assets.declaration.table import Table
from incload_assets.platform.protection_keys import ERASURE, erasure_key
from incload_assets.platform.sql import col
from incload_assets.protection.erasures import DenyList
from incload_assets.protection.tokens import token_column, with_keys, without_keys

IS_ERASED = "_is_erased"
KNOWN_ERASED = "_known_erased"
REASON = "its subject was erased"
_ALWAYS = r"\s\"',;{}\[\]|=\\<>()/&#?!"
SEPARATORS = (
    f"[{_ALWAYS}]+",  # tokens contain a colon
    f"[{_ALWAYS}:]+",  # mail addresses contain what follows
    f"[{_ALWAYS}:.@+]+",
    r"[\s\"',;{}\[\]|=\\<>():]+",  # paths contain slashes
    r"\"",  # strings of JSON contain anything
)
"""How the words of a text are separated, in five ways, because identifiers may contain what separates others."""


class Found(NamedTuple):
    """Columns that identify the person that a row is about."""

    subject: Column
    key: Column


def subject_of(table: Table) -> Found:
    """The subject of a row as text, and its key, as fingerprints are made of them."""
    assert table.subject is not None
    by, keys = table.subject.by, table.changes.keys
    subject = as_text(col(by), table.type_of(by))
    parts = [as_text(col(name), table.type_of(name)) for name in keys]
    if not keys or by in keys:
        return Found(subject, F.lit(None).cast("string"))
    return Found(subject, F.when(F.coalesce(*parts).isNotNull(), F.to_json(F.array(*parts))))


def marked_erased(rows: DataFrame, table: Table, deny: DenyList, *, rejected: Column | None = None) -> DataFrame:
    """The rows with ``_is_erased``, by their subjects; for ``rejected`` ones by the words of ``_payload``, too."""
    if not deny:
        return rows.withColumn(IS_ERASED, F.lit(False))
    spark = rows.sparkSession
    of = subject_of(table)
    keyed = with_keys(rows, {ERASURE: erasure_key()})
    listed = deny.rows(spark, "_listed")
    own = token_column(ERASURE, F.coalesce(of.subject, of.key))
    found = keyed.withColumn("_fingerprint", own).join(listed, F.col("_fingerprint") == F.col("_listed"), "left")
    is_erased = F.col("_listed").isNotNull()
    if rejected is not None:
        words = F.flatten(F.array(*(F.split(F.col("_payload"), by) for by in SEPARATORS)))
        tokens = F.transform(F.array_distinct(words), lambda word: token_column(ERASURE, word))
        whole = spark.createDataFrame([(sorted(deny.fingerprints),)], "_all array<string>")
        found = found.crossJoin(F.broadcast(whole))
        unread = rejected & of.subject.isNull()
        is_erased |= unread & F.coalesce(F.arrays_overlap(tokens, F.col("_all")), F.lit(False))
    found = found.withColumn(IS_ERASED, is_erased)
    return without_keys(found).drop("_fingerprint", "_listed", "_all")


def fingerprints_of_keys(rows: DataFrame, table: Table, deny: DenyList) -> DataFrame:
    """The fingerprints of keys whose rows are of erased subjects alone, in the column ``fingerprint``.

    Changes of such a key that lack their subject are the subject's, too. Empty if rows have their subject in the key.
    """
    of = subject_of(table)
    marked = marked_erased(rows, table, deny).withColumns({"_key": of.key, "_subject": of.subject})
    others = F.max(F.col("_subject").isNotNull() & ~F.col(IS_ERASED))
    keys = (
        marked.filter(F.col("_key").isNotNull())
        .groupBy("_key")
        .agg(F.max(IS_ERASED).alias("_any"), others.alias("_others"))
    )
    due = with_keys(keys.filter(F.col("_any") & ~F.col("_others")), {ERASURE: erasure_key()})
    return due.select(token_column(ERASURE, F.col("_key")).alias("fingerprint"))


def without_erased(rows: DataFrame, table: Table, deny: DenyList, *, rejected: Column | None = None) -> DataFrame:
    """The rows whose subject is not in the deny list; with the arguments of :func:`marked_erased`."""
    if not deny:
        return rows
    return marked_erased(rows, table, deny, rejected=rejected).filter(~F.col(IS_ERASED)).drop(IS_ERASED)


def binned(rows: DataFrame, table: Table, deny: DenyList) -> DataFrame:
    """Validated rows; rows of erased subjects keep nothing but their kind and window.

    If any person was erased, the rows have ``_known_erased``: whether the source's own value shows it, or NULL.
    """
    if not deny:
        return rows
    marked = marked_erased(rows, table, deny, rejected=F.size("_reasons") > 0)
    is_erased = F.col(IS_ERASED) | F.coalesce(KNOWN_ERASED, F.lit(False))
    types = {one.name: one.dataType for one in rows.schema.fields if one.name != KNOWN_ERASED}
    kept = {"_kind": F.lit(ERASED), "_reasons": F.array(F.lit(REASON)), "_window": F.col("_window")}
    columns = [
        F.when(is_erased, kept.get(name, F.lit(None).cast(kind))).otherwise(col(name)).alias(name)
        for name, kind in types.items()
    ]
    return marked.select(*columns)

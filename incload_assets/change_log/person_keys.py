"""Keys of persons: one secret for each person whose values are encrypted, so that its deletion makes them unreadable.

They are in the Delta table ``_person_keys`` of the lake, or where ``INCLOAD_PERSON_KEYS`` says, so that a backup of the
lake need not contain them. A key that encrypts is derived of a person's secret and of the key that a secret store
keeps: neither alone reads anything. Persons stand there by the fingerprints that erasures use.

A person has one secret, whatever loads at once: Delta rejects an append that has read its part of the table, if others
have appended to that part since, and the load looks again.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyspark.sql.types as T
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.erasures import DenyList
from incload_assets.delta.sql import literal
from incload_assets.delta.tables import ensure_table, lost_the_race
from resources.errors import ConcurrentLoad, SourceUnreadable
from resources.lake import PERSON_KEYS_FOLDER, SHADOW_FOLDER, Lake
from resources.protection_keys import ERASURE, erasure_key, token_prefix
from resources.settings import Settings

ATTEMPTS = 20
MANY = 16
"""Number of files from which a part is compacted."""
_KEPT_HOURS = 7 * 24
PERSON, SECRET = "_person", "_secret"
_PART = "part"
"""The partition column: the last two digits of a person's fingerprint, so that a small load reads few files."""
_SCHEMA = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("fingerprint", T.StringType()),
        T.StructField("secret", T.BinaryType()),
        T.StructField(_PART, T.StringType()),
    ]
)


@dataclass(frozen=True)
class PersonKeys:
    """The secrets of persons.

    Args:
        rows: ``_person``, the fingerprint, and ``_secret``, 36 bytes.
        are_complete: Whether each person that was asked for has one, but those in the deny list.
    """

    rows: DataFrame
    are_complete: bool


@contextmanager
def keys_of_persons(lake: Lake, kind: str, persons: DataFrame, deny: DenyList, *, create: bool) -> Iterator[PersonKeys]:
    """The keys of persons.

    Args:
        lake: The lake.
        kind: The kind of person.
        persons: Fingerprints, in the column ``_person``; with repetitions and NULL.
        deny: Erased persons, who get no key.
        create: Whether persons without a key get one.

    Raises:
        SourceUnreadable: The key of erasures is missing, or the persons have fingerprints under another one.
        ConcurrentLoad: Others wrote first in every attempt.
    """
    spark = persons.sparkSession
    wanted = persons.filter(F.col(PERSON).isNotNull()).distinct()
    if deny:
        erased = spark.createDataFrame([(one,) for one in sorted(deny.fingerprints)], f"{PERSON} string")
        wanted = wanted.join(F.broadcast(erased), PERSON, "left_anti")
    wanted = wanted.persist()
    try:
        found = wanted.agg(F.collect_set(_part(F.col(PERSON))).alias("parts")).first()
        parts: list[str] = found["parts"] if found is not None else []
        if create and parts:
            _create_missing(spark, lake, kind, wanted, parts)
        yield PersonKeys(stored_keys(spark, lake, kind, parts), create)
    finally:
        with suppress(PySparkException):  # a server that is gone keeps nothing
            wanted.unpersist()


def forget_persons(lake: Lake, kind: str, fingerprints: Collection[str]) -> int:
    """Deletes the keys of persons; returns how many. The files that had them are still there.

    Args:
        lake: The lake.
        kind: The kind of person.
        fingerprints: Their fingerprints.

    Raises:
        ConcurrentLoad: Others wrote first in every attempt.
    """
    listed = ", ".join(literal(one) for one in sorted(fingerprints))
    for _ in range(ATTEMPTS):
        if (delta := lake.delta(person_keys_uri(lake))) is None:
            return 0
        try:
            done = delta.delete(f"kind = {literal(kind)} AND fingerprint IN ({listed})")
        except CommitFailedError:
            continue
        return int(done["num_deleted_rows"])
    raise _others_first(lake)


def stored_keys(spark: SparkSession, lake: Lake, kind: str, parts: Collection[str] | None = None) -> DataFrame:
    """The stored keys of persons: ``_person`` and ``_secret``.

    Args:
        spark: The session.
        lake: The lake.
        kind: The kind of person.
        parts: The parts of the table to read; None: all.
    """
    uri = person_keys_uri(lake)
    if lake.delta(uri) is None:
        return spark.createDataFrame([], f"{PERSON} string, {SECRET} binary")
    rows = spark.read.format("delta").load(lake.spark_uri(uri)).filter(F.col("kind") == kind)
    if parts is not None:
        rows = rows.filter(F.col(_PART).isin(*parts))
    return rows.select(F.col("fingerprint").alias(PERSON), F.col("secret").alias(SECRET))


def compact_keys(lake: Lake) -> int:
    """Puts the small files of crowded parts together, and removes files that were replaced a week ago.

    Returns:
        The number of files that were put together; 0 if another writer came first.
    """
    if (delta := lake.delta(person_keys_uri(lake))) is None:
        return 0
    files = Counter(delta.get_add_actions(flatten=True).column(f"partition.{_PART}").to_pylist())
    crowded = [part for part, count in files.items() if count >= MANY]
    try:
        done = delta.optimize.compact(partition_filters=[(_PART, "in", crowded)]) if crowded else {"numFilesRemoved": 0}
    except CommitFailedError:
        return 0
    delta.vacuum(_KEPT_HOURS, dry_run=False)
    return int(done["numFilesRemoved"])


def person_keys_uri(lake: Lake) -> str:
    """The URI of the table of keys; a shadow has those of its lake."""
    root = lake.root.partition(f"/{SHADOW_FOLDER}/")[0]
    return Settings().person_keys or f"{root}/{PERSON_KEYS_FOLDER}"


def _create_missing(spark: SparkSession, lake: Lake, kind: str, wanted: DataFrame, parts: Collection[str]) -> None:
    uri = person_keys_uri(lake)
    ensure_table(spark, lake, uri, _SCHEMA, (_PART,), "keys of persons")
    for _ in range(ATTEMPTS):
        delta = lake.delta(uri)
        assert delta is not None
        _check_fingerprints(delta)
        missing = wanted.join(stored_keys(spark, lake, kind, parts), PERSON, "left_anti")
        if missing.head(1) == []:
            return
        new = missing.select(
            F.lit(kind).alias("kind"),
            F.col(PERSON).alias("fingerprint"),
            _random(F.col(PERSON)).alias("secret"),
            _part(F.col(PERSON)).alias(_PART),
        )
        try:
            new.repartition(_PART).write.save(lake.spark_uri(uri), format="delta", mode="append")
        except PySparkException as error:
            if not lost_the_race(error):
                raise
    raise _others_first(lake)


def _random(different: Column) -> Column:
    """36 random bytes for each row: three nonces that Spark draws from Java's ``SecureRandom`` when it encrypts.

    Args:
        different: A text that differs between rows. Of a constant Spark draws one nonce for all rows.
    """
    any_key = F.lit(bytes(32))
    boxes = (F.aes_encrypt(F.concat(different, F.lit(str(each))), any_key, F.lit("GCM")) for each in range(3))
    return F.concat(*(F.substring(box, 1, 12) for box in boxes))


def _part(fingerprint: Column) -> Column:
    return F.right(fingerprint, F.lit(2))


def _check_fingerprints(delta: DeltaTable) -> None:
    """Refuses another key of erasures, under which each person would get a second key."""
    mine, files = token_prefix(ERASURE, erasure_key()), delta.get_add_actions(flatten=True)
    ends = [files.column(name).to_pylist() for name in ("min.fingerprint", "max.fingerprint") if files.num_rows]
    if others := sorted({str(end).partition(":")[0] for found in ends for end in found if not end.startswith(mine)}):
        raise SourceUnreadable(
            f"keys of persons are kept under {', '.join(others)}, here the key of erasures is {mine[:-1]}",
            rule="a person is recognised by a fingerprint under the key of erasures",
            remedy="give the same key to all that load: INCLOAD_KEY_ERASURE, or INCLOAD_KEY_ERASURE_FILE",
        )


def _others_first(lake: Lake) -> ConcurrentLoad:
    return ConcurrentLoad(
        f"the keys of persons in {person_keys_uri(lake)} were written by others in each of {ATTEMPTS} attempts",
        rule="keys of persons are written one after another",
        remedy="the load is tried again later",
    )

"""Keys of persons: one secret for each person whose values are encrypted, so that its deletion makes them unreadable.

They are in the Delta table ``_person_keys`` of the lake, or where ``INCLOAD_PERSON_KEYS`` says, so that a backup of the
lake need not contain them, by the fingerprints that erasures use. A key that encrypts is derived from a person's secret
and from the key that a secret store keeps: neither alone reads anything.

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

from incload_assets.contract.adaptation import Stored
from incload_assets.delta.tables import ensure_table, lost_the_race
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad, SourceUnreadable
from incload_assets.platform.lake import PERSON_KEYS_FOLDER, SHADOW_FOLDER, Lake, data_files
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.settings import current_settings
from incload_assets.platform.sql import literal
from incload_assets.protection.erasures import DenyList, refuse_other_keys

ATTEMPTS = 20
MANY = 16
"""Number of files from which a part is compacted."""
_KEPT_HOURS = 7 * 24
_ELSEWHERE = "incload.person_keys"
"""The property of the lake's own table of keys, which is empty then, with the identifier of the one that is used."""
PERSON, ID, SECRET = "_person", "_person_id", "_secret"
_PART = "part"
"""The partition column: the last two digits of a person's fingerprint, so that a small load reads few files."""
_SCHEMA = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("fingerprint", T.StringType()),
        T.StructField("id", T.StringType()),
        T.StructField("secret", T.BinaryType()),
        T.StructField(_PART, T.StringType()),
    ]
)


@dataclass(frozen=True)
class PersonKeys:
    """The secrets of persons: ``_person``, the fingerprint; ``_person_id``, 24 hex digits; ``_secret``, 36 bytes.

    They are complete if each person that was asked for has one, except for those in the deny list.
    """

    rows: DataFrame
    are_complete: bool


@contextmanager
def keys_of_persons(lake: Lake, kind: str, persons: DataFrame, deny: DenyList, *, create: bool) -> Iterator[PersonKeys]:
    """The keys of persons who are not erased, by the fingerprints in ``_person``; with ``create`` also new ones.

    Raises SourceUnreadable if the key of erasures is missing or another one, or the keys are elsewhere; ConcurrentLoad.
    """
    spark = persons.sparkSession
    wanted = persons.filter(F.col(PERSON).isNotNull()).distinct()
    if deny:
        wanted = wanted.join(deny.rows(spark, PERSON), PERSON, "left_anti")
    wanted = wanted.persist()
    try:
        found = wanted.agg(F.collect_set(_part(F.col(PERSON))).alias("parts")).first()
        parts: list[str] = found["parts"] if found is not None else []
        _check_key(lake)
        if create and parts:
            _create_missing(spark, lake, kind, wanted, parts)
        yield PersonKeys(stored_keys(spark, lake, kind, parts), create)
    finally:
        with suppress(PySparkException):  # a server that is gone keeps nothing
            wanted.unpersist()


def forget_persons(lake: Lake, kind: str, fingerprints: Collection[str]) -> int:
    """Deletes the keys of persons, but not yet the files that have them; returns how many."""
    listed = ", ".join(literal(one) for one in sorted(fingerprints))

    def forgotten() -> int | None:
        if (delta := store_of(lake)) is None:
            return 0
        try:
            done = delta.delete(f"kind = {literal(kind)} AND fingerprint IN ({listed})")
        except CommitFailedError:
            return None
        return int(done["num_deleted_rows"])

    return in_attempts(ATTEMPTS, forgotten, _others_first(lake))


def stored_keys(spark: SparkSession, lake: Lake, kind: str, parts: Collection[str] | None = None) -> DataFrame:
    """The stored keys of persons, as in :class:`PersonKeys`, in parts of the table; None: in all."""
    if store_of(lake) is None:
        return spark.createDataFrame([], f"{PERSON} string, {ID} string, {SECRET} binary")
    rows = spark.read.format("delta").load(lake.spark_uri(person_keys_uri(lake))).filter(F.col("kind") == kind)
    if parts is not None:
        rows = rows.filter(F.col(_PART).isin(*parts))
    return rows.select(F.col("fingerprint").alias(PERSON), F.col("id").alias(ID), F.col("secret").alias(SECRET))


def compact_keys(lake: Lake) -> int:
    """Compacts parts with many files, and removes files replaced a week ago; returns how many it compacted."""
    if (delta := store_of(lake)) is None:
        return 0
    files = Counter(delta.get_add_actions(flatten=True).column(f"partition.{_PART}").to_pylist())
    crowded = [part for part, count in files.items() if count >= MANY]
    try:
        done = delta.optimize.compact(partition_filters=[(_PART, "in", crowded)]) if crowded else {"numFilesRemoved": 0}
    except CommitFailedError:
        return 0
    delta.vacuum(_KEPT_HOURS, dry_run=False, full=True)
    return int(done["numFilesRemoved"])


def person_keys_uri(lake: Lake) -> str:
    """The URI of the table of keys; a shadow uses the table of its lake."""
    return current_settings().person_keys_root or _own_uri(lake)


def store_of(lake: Lake) -> DeltaTable | None:
    """The table of keys; None if there is none yet. Raises SourceUnreadable if it is not where the lake's keys are.

    Otherwise persons would get a second key, and an erasure would delete none.
    """
    uri, own = person_keys_uri(lake), _own_uri(lake)
    store, in_lake = lake.delta(uri), lake.delta(own)
    elsewhere = None if in_lake is None else in_lake.metadata().configuration.get(_ELSEWHERE)
    if uri == own and elsewhere is None:
        return store
    if uri == own:
        problem = "the keys of persons of this lake are elsewhere, and INCLOAD_PERSON_KEYS is not set"
    elif in_lake is not None and elsewhere is None:
        problem = f"INCLOAD_PERSON_KEYS is {uri}, but the keys of persons are in {own}"
    elif elsewhere is not None and (store is None or str(store.metadata().id) != elsewhere):
        problem = f"INCLOAD_PERSON_KEYS is {uri}, where the keys of persons of this lake are not"
    else:
        return store
    raise SourceUnreadable(
        problem,
        rule="the keys of a lake are in one place",
        remedy="set INCLOAD_PERSON_KEYS as where the lake was loaded; to move the keys, move the whole folder of the "
        "table while nothing loads, so that none is left in the lake",
    )


def _own_uri(lake: Lake) -> str:
    root = lake.root.partition(f"/{SHADOW_FOLDER}/")[0]
    return f"{root}/{PERSON_KEYS_FOLDER}"


def _create_missing(spark: SparkSession, lake: Lake, kind: str, wanted: DataFrame, parts: Collection[str]) -> None:
    uri = person_keys_uri(lake)
    ensure_table(spark, lake, uri, Stored(_SCHEMA, (_PART,)), "keys of persons")
    if uri != _own_uri(lake):
        store = lake.delta(uri)
        assert store is not None
        place = Stored(_SCHEMA, (_PART,), {_ELSEWHERE: str(store.metadata().id)})
        ensure_table(spark, lake, _own_uri(lake), place, "the place of keys of persons")

    def created() -> bool | None:
        missing = wanted.join(stored_keys(spark, lake, kind, parts), PERSON, "left_anti")
        if not missing.head(1):
            return True
        new = missing.select(
            F.lit(kind).alias("kind"),
            F.col(PERSON).alias("fingerprint"),
            F.lower(F.hex(_random(F.col(PERSON), 1))).alias("id"),
            _random(F.col(PERSON), 3).alias("secret"),
            _part(F.col(PERSON)).alias(_PART),
        )
        try:
            new.repartition(_PART).write.save(lake.spark_uri(uri), format="delta", mode="append")
        except PySparkException as error:
            if not lost_the_race(error):
                raise
        return None  # of two that create a key, both look again

    in_attempts(ATTEMPTS, created, _others_first(lake))


def _random(different: Column, draws: int) -> Column:
    """Nonces of 12 bytes for each row, which Spark takes from Java's ``SecureRandom`` to encrypt.

    ``different`` is a text that differs between rows: of a constant Spark draws one nonce for all rows.
    """
    texts = (F.concat(different, F.lit(f" {draws} {each}")) for each in range(draws))
    boxes = (F.aes_encrypt(text, F.lit(bytes(32)), F.lit("GCM")) for text in texts)
    return F.concat(*(F.substring(box, 1, 12) for box in boxes))


def _part(fingerprint: Column) -> Column:
    return F.right(fingerprint, F.lit(2))


def _check_key(lake: Lake) -> None:
    """Refuses another key of erasures, under which each person would get a second key."""
    if (store := store_of(lake)) is not None:
        files = data_files(store)
        ends = [files[name] for name in ("min.fingerprint", "max.fingerprint") if name in files.schema.names]
        if len(ends) < 2 or any(end.null_count for end in ends):  # fingerprints begin as the ends of their range do
            ends = [rows_where(store, columns=["fingerprint"])["fingerprint"]]
        refuse_other_keys((one for end in ends for one in end.to_pylist()), "keys of persons are kept")


def _others_first(lake: Lake) -> ConcurrentLoad:
    return ConcurrentLoad(
        f"the keys of persons in {person_keys_uri(lake)} were written by others in each of {ATTEMPTS} attempts",
        rule="keys of persons are written one after another",
        remedy="the load is tried again later",
    )

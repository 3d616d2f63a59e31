"""Erasures: the deny list of erased subjects, and the barrier that no older landing passes.

The lake's Delta table ``_erased`` holds keyed fingerprints only. A load leaves out the rows of each subject in it,
whatever brings them: a source that sends them again, a backfill, a replay, an undo.

A load that read the list before an erasure, and commits after it, would bring rows back. So table and log have a
number, their *barrier*, in a Delta property. An erasure writes the list first, then raises the barrier: Delta rejects
each commit that began before a change of properties, and a landing that was staged under a lower barrier is not
committed. ``tests/model/erasure.py`` explores this protocol.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.delta.tables import lost_the_race
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad, SourceUnreadable
from incload_assets.platform.lake import ERASED_FOLDER, Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.protection_keys import ERASURE, erasure_key, token, token_prefix

BARRIER = "incload.erasures"
"""The property of a table, and of its log, with the number of erasures that it has seen."""
WRITER = "incload/erased"
ATTEMPTS = 20
_SCHEMA = pa.schema(
    [pa.field("at", pa.timestamp("us", "UTC")), pa.field("scope", pa.string()), pa.field("fingerprint", pa.string())]
)


@dataclass(frozen=True)
class DenyList:
    """The fingerprints of erased subjects of a table, and of keys of rows whose changes may lack their subject."""

    fingerprints: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.fingerprints)

    def rows(self, spark: SparkSession, column: str) -> DataFrame:
        """The fingerprints as rows of one column, for joins."""
        listed = [(one,) for one in sorted(self.fingerprints)]
        return F.broadcast(spark.createDataFrame(listed, f"{column} string"))


NOBODY = DenyList()


def fingerprint(value: str, *, create: bool = False) -> str:
    """The fingerprint of a value: its HMAC-SHA-256 under the key of erasures, which ``create`` makes if necessary."""
    return token(ERASURE, erasure_key(create=create), value)


def check_fingerprints(fingerprints: Collection[str]) -> None:
    """Raises SourceUnreadable, with numbers alone, for what is no fingerprint or one of another key."""
    form = re.compile(rf"{token_prefix(ERASURE, erasure_key())}[0-9a-f]{{64}}")
    wrong = [one for one in fingerprints if not form.fullmatch(one)]
    if wrong or not fingerprints:
        raise SourceUnreadable(
            f"{len(wrong)} of {len(fingerprints)} values given are no fingerprints under the present key of erasures",
            rule=f"a fingerprint is {ERASURE}-, the key's identifier, a colon and 64 hexadecimal digits, of one key",
            remedy="print them with incload erase KIND VALUE --fingerprint, with the same INCLOAD_KEY_ERASURE",
        )


def subjects_scope(kind: str) -> str:
    """The scope of fingerprints of persons of a kind."""
    return f"subject {kind}"


def keys_scope(table: Table) -> str:
    """The scope of fingerprints of keys of a table."""
    return f"key {table.name}"


def deny_list_of(lake: Lake, table: Table) -> DenyList:
    """The deny list for a table; raises SourceUnreadable if the key that made its fingerprints is missing."""
    if table.subject is None or (delta := lake.delta(erased_uri(lake))) is None:
        return NOBODY
    scopes = [subjects_scope(table.subject.kind), keys_scope(table)]
    found = rows_where(delta, {"scope": scopes}, columns=["fingerprint"])
    listed = frozenset(found["fingerprint"].to_pylist())
    if listed:
        refuse_other_keys(listed, f"{table.name}: subjects were erased")
    return DenyList(listed)


def refuse_other_keys(fingerprints: Iterable[str], what: str) -> None:
    """Raises SourceUnreadable for stored fingerprints of another key of erasures; ``what`` was done with it."""
    mine = token_prefix(ERASURE, erasure_key())
    if others := sorted({one.partition(":")[0] for one in fingerprints if not one.startswith(mine)}):
        raise SourceUnreadable(
            f"{what} under the key {', '.join(others)}, here it is {mine[:-1]}",
            rule="persons are recognised by fingerprints under the key of erasures",
            remedy="give the same key to all that load: INCLOAD_KEY_ERASURE, or INCLOAD_KEY_ERASURE_FILE",
        )


def deny(lake: Lake, scope: str, fingerprints: Collection[str]) -> bool:
    """Adds fingerprints to the deny list; returns whether there were new ones, raises ConcurrentLoad."""
    uri = erased_uri(lake)

    def denied() -> bool | None:
        delta = lake.delta(uri)
        number, known = 0, set[str]()
        if delta is not None:
            number = delta.transaction_version(WRITER) or 0
            listed = rows_where(delta, {"scope": [scope]}, columns=["fingerprint"])
            known = {*listed["fingerprint"].to_pylist()}
        rows = [{"at": windows.now(), "scope": scope, "fingerprint": one} for one in sorted(set(fingerprints) - known)]
        if not rows:
            return False
        return lake.append(uri, pa.Table.from_pylist(rows, _SCHEMA), WRITER, number + 1) or None

    lost = ConcurrentLoad(
        f"the deny list in {uri} was written by others in each of {ATTEMPTS} attempts",
        rule="erasures are written one after another",
        remedy="try again",
    )
    return in_attempts(ATTEMPTS, denied, lost)


def erased_uri(lake: Lake) -> str:
    """The URI of the deny list."""
    return f"{lake.root}/{ERASED_FOLDER}"


def barrier_of(delta: DeltaTable) -> int:
    """The barrier of a version of a table or log; 0 before any erasure."""
    return int(delta.metadata().configuration.get(BARRIER, 0))


def raise_barrier(spark: SparkSession, lake: Lake, uri: str) -> int:
    """Raises the barrier of a table or log by a commit of its own; returns its number, or raises ConcurrentLoad."""

    def raised() -> int | None:
        delta = lake.delta(uri)
        assert delta is not None
        number = barrier_of(delta) + 1
        try:
            spark.sql(f"ALTER TABLE {lake.sql_name(uri)} SET TBLPROPERTIES ('{BARRIER}' = '{number}')").first()
        except PySparkException as error:
            if not lost_the_race(error):
                raise
            return None
        return number

    lost = ConcurrentLoad(
        f"the properties of {uri} were changed by others in each of {ATTEMPTS} attempts",
        rule="an erasure raises the barrier of each table and log that it concerns",
        remedy="run the erasure again",
    )
    return in_attempts(ATTEMPTS, raised, lost)

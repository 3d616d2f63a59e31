"""Comparison of one ingested window with the table and with the source."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.observation import Observation
from incload_assets.checks.source_comparison import (
    Content,
    content_of,
    log_content,
    source_rows,
    table_evidence,
)
from incload_assets.declaration.window import Window
from incload_assets.load.error_translation import translated
from incload_assets.load.reconcile import Evidence, unsigned
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several

LOOKS = 3


@dataclass(frozen=True)
class Compared:
    """The result of comparing one window: ``source`` and ``log`` have the contents, None if not compared.

    ``drifted``: the source's position is no longer the ingested one. ``code_changed``: another version of the code
    validated the log's rows, or ``removed``: that many changes are compacted away; then the log is not compared.
    ``evidence`` compares the keys in table and log; None without a table. ``trouble`` says why the source could not be
    read again; if ``transient``, it may succeed a little later.
    """

    window: Window
    drifted: bool
    code_changed: bool
    removed: int = 0
    source: Content | None = None
    log: Content | None = None
    evidence: Evidence | None = None
    trouble: str | None = None
    transient: bool = False

    @property
    def differs(self) -> bool:
        """True if the source returns other rows than the log has, although its position is the same."""
        return self.source != self.log

    @property
    def pending(self) -> int:
        """The number of keys whose state in the table differs from the log."""
        return self.evidence.pending if self.evidence else 0

    @property
    def verdict(self) -> str:
        """The result in words."""
        found = [
            "unreadable" if self.trouble else "",
            "drifted" if self.drifted else "",
            "rows differ" if self.differs else "",
            f"{several(self.pending, 'key')} pending" if self.pending else "",
            "no table" if self.evidence is None else "",
            "validated by other code" if self.code_changed else "",
            f"{several(self.removed, 'change')} removed from the log" if self.removed else "",
        ]
        return ", ".join(filter(None, found)) or "agrees"


def compare(spark: SparkSession, look: Observation, window: Window) -> Compared:
    """Compares one ingested window with source and table."""
    table, record, position = look.table, look.records[window.key], look.state.positions.get(window.key)
    log = ChangeLog(table, look.lake)
    drifted = position is not None and position.fingerprint != record.fingerprint
    compared = Compared(window, drifted, record.code_version != table.code_version, record.removed)
    for _ in range(LOOKS):  # a load may be between its ingestion and its merge right now
        compared = replace(compared, evidence=table_evidence(spark, table, look.lake, log, window))
        if not compared.pending:
            break
    if drifted or compared.code_changed or compared.removed or position is None:
        return compared
    version = log.version()
    assert version is not None
    now = log.record(window.key, version)
    if now != record:  # ingested again, or compacted, since the observation
        return compared
    with ExitStack() as held:
        try:
            at_source = held.enter_context(source_rows(spark, table, look.lake, window, position))
            source = content_of(at_source)
        except (IncrementalLoadError, PySparkException) as error:
            why = translated(error, f"{table.name} {window.key}", table, look.lake)
            transient = isinstance(why, IncrementalLoadError) and why.transient
            return replace(compared, trouble=str(why), transient=transient)
        ingested = log_content(spark, table, log, version, window, position, at_source)
        return replace(compared, source=source, log=ingested)


COLUMNS = (
    "window", "verdict", "rows at source", "rows in log", "source hash", "log hash", "keys", "keys pending",
    "keys in effect", "hash in log", "hash in table", "trouble",
)  # fmt: skip
"""The columns of the comparisons in the check's metadata."""


def row_of(c: Compared) -> Sequence[object]:
    """A comparison as a row of :data:`COLUMNS`."""
    e = c.evidence
    return (
        c.window.key,
        c.verdict,
        *(side.rows if side else None for side in (c.source, c.log)),
        *(unsigned(side.hash) if side else None for side in (c.source, c.log)),
        *((e.keys, e.pending, e.present, unsigned(e.log_hash), unsigned(e.table_hash)) if e else [None] * 5),
        c.trouble,
    )

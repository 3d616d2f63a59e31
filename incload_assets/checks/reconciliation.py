"""Do source, log and table still agree? Looks at the source again and, for some windows, reads it again.

Three questions, from cheap to dear:

1. Does each landed window still have the position that was landed (all windows, one listing)? If not, it has *drifted*.
2. Does the table hold, for every key of the window, what the log says (chosen windows, one query each)?
3. Does the source, read and judged again, give the rows that the log has (chosen windows that have not drifted)?
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import dagster as dg
from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.checks.look import Look, records, several, some
from incload_assets.checks.source_comparison import (
    Content,
    content_of,
    log_content,
    source_rows,
    table_evidence,
)
from incload_assets.loading.change_log import ChangeLog
from incload_assets.loading.errors import IncrementalLoadError
from incload_assets.loading.reconciliation import Evidence, unsigned
from incload_assets.loading.window import Window

NAME = "reconciliation"
REPAIR = "repair"
"""Metadata: the partition keys that a load puts right; the table's sensor asks for them."""
DESCRIPTION = "Source, change log and table agree, by reading the source again; on demand or schedule, not with loads."

LOOKS = 3


class ReconciliationConfig(dg.Config):
    """Which landed windows are compared row by row; positions are always compared for all of them."""

    recent: int = Field(default=7, ge=0, description="How many of the newest landed windows.")
    partitions: list[str] = Field(default=[], description="These partition keys instead.")
    all_partitions: bool = Field(default=False, description="Every landed window instead.")


@dataclass(frozen=True)
class Compared:
    """The comparison of one window.

    Args:
        window: Which.
        drifted: Whether the source's position is no longer the landed one.
        code_changed: Whether the log's rows were judged by another version of the code; they are not compared then.
        removed: Changes that a compaction has removed from the log; if there are any, it is not compared.
        source, log: Content of both sides; None where not compared.
        evidence: Of the keys in table and log; None where there is no table.
        trouble: Why the source could not be read again.
    """

    window: Window
    drifted: bool
    code_changed: bool
    removed: int = 0
    source: Content | None = None
    log: Content | None = None
    evidence: Evidence | None = None
    trouble: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the source gives other rows than the log has, although its position is the same."""
        return self.source != self.log

    @property
    def pending(self) -> int:
        """Keys that the table does not hold as the log says."""
        return self.evidence.pending if self.evidence else 0

    @property
    def verdict(self) -> str:
        """In words."""
        found = [
            "unreadable" if self.trouble else "",
            "drifted" if self.drifted else "",
            "rows differ" if self.differs else "",
            f"{several(self.pending, 'key')} pending" if self.pending else "",
            "no table" if self.evidence is None else "",
            "judged by other code" if self.code_changed else "",
            f"{several(self.removed, 'change')} removed from the log" if self.removed else "",
        ]
        return ", ".join(filter(None, found)) or "agrees"


def chosen_windows(look: Look, config: ReconciliationConfig) -> list[Window]:
    """The landed windows to compare row by row, oldest first.

    Raises:
        dg.Failure: A partition that was asked for is not landed.
    """
    landed = [w for w in look.state.windows if w.key in look.controls]
    if config.partitions:
        known = {w.key for w in landed}
        if unknown := [key for key in config.partitions if key not in known]:
            raise dg.Failure(
                f"{look.table.name}: partition {some(unknown)} is not landed. Rule: reconciliation compares landed "
                "partitions. Remedy: materialize it first, or leave it out of the configuration.",
                allow_retries=False,
            )
        return [w for w in landed if w.key in config.partitions]
    return landed if config.all_partitions else landed[-config.recent :] if config.recent > 0 else []


def compare(spark: SparkSession, look: Look, window: Window) -> Compared:
    """Compare one landed window with source and table."""
    table, control, position = look.table, look.controls[window.key], look.state.positions.get(window.key)
    log = ChangeLog(table, look.lake)
    drifted = position is not None and position.fingerprint != control.fingerprint
    compared = Compared(window, drifted, control.code_version != table.code_version, control.removed)
    for _ in range(LOOKS):  # a load may be between its landing and its merge just now
        compared = replace(compared, evidence=table_evidence(spark, table, look.lake, log, window))
        if not compared.pending:
            break
    if drifted or compared.code_changed or compared.removed or position is None:
        return compared
    version = log.version()
    assert version is not None
    now = log.control(window.key, version)
    if now != control:  # landed again, or compacted, since the look
        return compared
    with ExitStack() as held:
        try:
            at_source = held.enter_context(source_rows(spark, table, window, position))
            source = content_of(at_source)
        except (IncrementalLoadError, PySparkException) as error:
            return replace(compared, trouble=str(error).splitlines()[0])
        landed = log_content(spark, table, log, version, window, position, at_source)
        return replace(compared, source=source, log=landed)


def reconciliation(
    spark: SparkSession, look: Look, config: ReconciliationConfig, say: Callable[[str], None] = lambda _: None
) -> dg.AssetCheckResult:
    """Whether source, log and table agree; ERROR if rows differ or keys are pending, WARN for drift alone.

    Args:
        spark: A session.
        look: What was seen of the table.
        config: Which windows to compare row by row.
        say: Called with one line per window.
    """
    drifted = [p.key for p in look.progress if _has_drifted(look, p.key)]
    compared = []
    for window in chosen_windows(look, config):
        compared.append(compare(spark, look, window))
        say(f"{look.table.name} {window.key}: {compared[-1].verdict}")
    pending = [c.window.key for c in compared if c.pending or c.evidence is None]
    differing = [c.window.key for c in compared if c.differs]
    unreadable = [c.window.key for c in compared if c.trouble]
    metadata: dict[str, dg.MetadataValue] = {
        "windows_landed": dg.MetadataValue.int(len(look.controls)),
        "windows_compared": dg.MetadataValue.int(len(compared)),
        "windows_drifted": dg.MetadataValue.int(len(drifted)),
        "windows_differing": dg.MetadataValue.int(len(differing)),
        "keys_pending": dg.MetadataValue.int(sum(c.pending for c in compared)),
        "windows": _table(compared),
    }
    if wrong := sorted({*pending, *(differing if look.table.source.keeps else ())}):
        metadata[REPAIR] = dg.MetadataValue.json(wrong)
    if drifted:
        metadata["drifted"] = records(["window", "landed", "now"], (_positions(look, key) for key in drifted))
    problems = bool(pending or differing or unreadable)
    return dg.AssetCheckResult(
        asset_key=look.table.key,
        check_name=NAME,
        passed=not (problems or drifted or look.trouble),
        severity=dg.AssetCheckSeverity.ERROR if problems else dg.AssetCheckSeverity.WARN,
        description=_described(look, compared, drifted, pending, differing, unreadable),
        metadata=metadata,
    )


def _has_drifted(look: Look, key: str) -> bool:
    control, position = look.controls.get(key), look.state.positions.get(key)
    return control is not None and position is not None and control.fingerprint != position.fingerprint


def _positions(look: Look, key: str) -> tuple[str, str, str]:
    now = look.state.positions[key]
    return key, look.controls[key].summary or look.controls[key].fingerprint, now.summary or now.fingerprint


def _table(compared: Sequence[Compared]) -> dg.TableMetadataValue:
    columns = [
        "window", "verdict", "rows at source", "rows in log", "source hash", "log hash", "keys", "keys pending",
        "keys in effect", "hash in log", "hash in table", "trouble",
    ]  # fmt: skip
    return records(columns, map(_row, compared))


def _row(c: Compared) -> tuple[object, ...]:
    e = c.evidence
    return (
        c.window.key,
        c.verdict,
        *(side.rows if side else None for side in (c.source, c.log)),
        *(unsigned(side.hash) if side else None for side in (c.source, c.log)),
        *((e.keys, e.pending, e.present, unsigned(e.log_hash), unsigned(e.table_hash)) if e else [None] * 5),
        c.trouble,
    )


def _described(
    look: Look,
    compared: Sequence[Compared],
    drifted: list[str],
    pending: list[str],
    differing: list[str],
    unreadable: list[str],
) -> str:
    parts = []
    if pending:
        parts.append(
            f"The table does not hold what the log says for {some(pending)}. The sensor asks for these partitions "
            "once; what to do if they are found again: ask who writes to the table beside the loads."
        )
    if differing and look.table.source.keeps:
        parts.append(
            f"The source has rows that were not there when they were read: {some(differing)}. The sensor asks for "
            "these partitions once; what to do if this happens often: declare a longer lag."
        )
    elif differing:
        parts.append(
            f"The source gives other rows than were landed for {some(differing)}, although its position is the same. "
            "What to do: check that the table's function is deterministic and that nobody edits files without a trace; "
            "then set another code_version, which judges all rows anew, and materialize these partitions."
        )
    if unreadable:
        parts.append(f"The source could not be read again for {some(unreadable)}; the table below says why.")
    if drifted:
        parts.append(
            f"{several(len(drifted), 'window')} changed at the source since the load: {some(drifted)}. What to do: the "
            "sensor asks for them again; or materialize them."
        )
    if look.trouble is not None:
        parts.append(f"The source could not be looked at: {look.trouble}")
    if not parts:
        parts.append(f"Source, log and table agree in {several(len(compared), 'compared window')}.")
        parts.append(f"None of {several(len(look.controls), 'landed window')} has drifted.")
    if changed := [c.window.key for c in compared if c.code_changed]:
        parts.append(f"Not compared with the source, because another version of the code judged them: {some(changed)}.")
    if compacted := [c.window.key for c in compared if c.removed]:
        parts.append(f"Not compared with the source, because the log was compacted: {some(compacted)}.")
    return " ".join(parts)

"""The check ``reconciliation``: whether source, log and table still agree.

It compares three things, from cheap to expensive:

1. Positions: each ingested window still has the position that was ingested (all windows, one listing). Otherwise it has
   *drifted*.
2. Keys: for every key of a window, the table matches the log (chosen windows, one query each).
3. Rows: the source, read and validated again, returns the rows that the log has (chosen windows that have not drifted).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager

import dagster as dg
from pydantic import Field
from pyspark.sql import SparkSession

from incload_assets.checks.comparing import COLUMNS, Compared, compare, row_of
from incload_assets.checks.findings import (
    BY_ROWS,
    CAUGHT_UP,
    DIFFERING,
    DRIFTED,
    FOUND,
    MENDED,
    PENDING,
    REPAIR,
    UNAVAILABLE,
    UNREADABLE,
    UNSEEN,
    WRONG,
    Found,
    found_at,
    found_next,
    windows_in,
)
from incload_assets.checks.kinds import Rough
from incload_assets.checks.observation import Observation, records
from incload_assets.declaration.window import Window
from incload_assets.platform.wording import several, some

NAME = "reconciliation"
DESCRIPTION = "Source, change log and table agree when the source is read again; on demand or schedule, not with loads."
RUNBOOK = "missed-updates"

RECENT = 7
ROUGH: Rough = {FOUND: lambda found: {kind: sorted(keys) for kind, keys in found.items()}}
"""When something was found is no finding."""

__all__ = ["REPAIR", "ReconciliationConfig", "chosen_windows", "first_verdict", "look_again", "reconciliation"]


class ReconciliationConfig(dg.Config):
    """The ingested windows to compare row by row; positions are always compared for all windows."""

    recent: int = Field(default=RECENT, ge=0, description="Number of newest ingested windows to compare.")
    partitions: list[str] = Field(default=[], description="Compare these partitions instead.")
    all_partitions: bool = Field(default=False, description="Compare every ingested window instead.")


def chosen_windows(look: Observation, config: ReconciliationConfig) -> list[Window]:
    """The ingested windows to compare row by row, oldest first; dg.Failure if a requested partition is not ingested."""
    ingested = [w for w in look.state.windows if w.key in look.records]
    if config.partitions:
        known = {w.key for w in ingested}
        if unknown := [key for key in config.partitions if key not in known]:
            raise dg.Failure(
                f"{look.table.name}: partition {some(unknown)} is not ingested. Rule: reconciliation compares ingested "
                "partitions. Remedy: materialize it first, or leave it out of the configuration.",
                allow_retries=False,
            )
        wanted = {*config.partitions}
        return [w for w in ingested if w.key in wanted]
    return ingested if config.all_partitions else ingested[-config.recent :] if config.recent > 0 else []


def reconciliation(
    spark: SparkSession,
    look: Observation,
    config: ReconciliationConfig,
    say: Callable[[str], None] = lambda _: None,
    known: Collection[str] = (),
) -> dg.AssetCheckResult:
    """The check that source, log and table agree; ERROR if rows differ or keys are pending, WARN for drift alone.

    Windows with ``known`` findings are compared, too, if they are ingested.
    """
    chosen = {window.key for window in chosen_windows(look, config)} | ({*known} & look.records.keys())
    return _new_verdict(look, _compared(spark, look, [w for w in look.state.windows if w.key in chosen], say))


def first_verdict(look: Observation) -> dg.AssetCheckResult:
    """The check that every ingested window still has its position. Compares no rows, so needs no Spark."""
    return _new_verdict(look, [])


def look_again(
    session: Callable[[], AbstractContextManager[SparkSession]],
    look: Observation,
    before: dg.AssetCheckResult,
    found: Found,
    loaded: Collection[str],
    say: Callable[[str], None] = lambda _: None,
) -> dg.AssetCheckResult:
    """The result for windows with earlier findings; other windows are not compared.

    Rows are compared if the window has been loaded since, or if the source did not answer before. Positions show,
    without Spark, whether a window has caught up with its source.
    """
    ingested = [window for window in look.state.windows if window.key in look.records]
    unanswered = [window for window in ingested if window.key in found.get(UNAVAILABLE, {})][-RECENT:]
    by_rows = windows_in(found, *BY_ROWS)
    again = [w for w in ingested if w in unanswered or (w.key in by_rows and w.key in loaded)]
    compared: list[Compared] = []
    if again:
        with session() as spark:
            compared = _compared(spark, look, again, say)
    wrong = _by_rows(compared)
    wrong[MENDED] = [c.window.key for c in compared if not any(c.window.key in keys for keys in wrong.values())]
    known = found.get(DRIFTED, {})
    behind = {p.key for p in look.progress if p.position is not None and not p.is_current}
    changed = {*known} & behind & look.records.keys()  # a window that another load has just ingested is still behind
    # later changes are the sensor's business and no finding, unless the source could not be checked before
    changed |= {key for key in _drifted(look) if key in known or UNSEEN in found}
    left = {kind: {key: at for key, at in of.items() if key in look.records} for kind, of in found.items()}
    found = found_next(left, wrong, changed, [window.key for window in again], look.now)
    kept = windows_in(found, *BY_ROWS, MENDED) - {window.key for window in again}
    return _verdict(look, found, compared, [row for row in _rows_in(before) if row[0] in kept])


def _new_verdict(look: Observation, compared: Sequence[Compared]) -> dg.AssetCheckResult:
    found = found_at({**_by_rows(compared), DRIFTED: _drifted(look), UNSEEN: [""] if look.trouble else []}, look.now)
    return _verdict(look, found, compared, [])


def _compared(
    spark: SparkSession, look: Observation, windows: Iterable[Window], say: Callable[[str], None]
) -> list[Compared]:
    compared = []
    for window in windows:
        compared.append(compare(spark, look, window))
        say(f"{look.table.name} {window.key}: {compared[-1].verdict}")
    return compared


def _by_rows(compared: Sequence[Compared]) -> dict[str, list[str]]:
    return {
        PENDING: [c.window.key for c in compared if c.pending or c.evidence is None],
        DIFFERING: [c.window.key for c in compared if c.differs],
        UNREADABLE: [c.window.key for c in compared if c.trouble and not c.transient],
        UNAVAILABLE: [c.window.key for c in compared if c.trouble and c.transient],
    }


def _drifted(look: Observation) -> list[str]:
    positions, records = look.state.positions, look.records
    both = [window.key for window in look.state.windows if window.key in positions and window.key in records]
    return [key for key in both if records[key].fingerprint != positions[key].fingerprint]


def _verdict(
    look: Observation, found: Found, compared: Sequence[Compared], kept: Sequence[Sequence[object]]
) -> dg.AssetCheckResult:
    """The check result that reports the findings of a run, with the comparisons behind them."""
    rows = [*kept, *map(row_of, compared)]
    drifted, pending, differing = (_keys(look, found, kind) for kind in (DRIFTED, PENDING, DIFFERING))
    metadata: dict[str, dg.MetadataValue] = {
        "windows_landed": dg.MetadataValue.int(len(look.records)),
        "windows_compared": dg.MetadataValue.int(len(rows)),
        "windows_drifted": dg.MetadataValue.int(len(drifted)),
        "windows_differing": dg.MetadataValue.int(len(differing)),
        "keys_pending": dg.MetadataValue.int(sum(_number(row, "keys pending") for row in rows)),
        "rows_compared": dg.MetadataValue.int(sum(map(_rows_of, rows))),
        "rows_missing": dg.MetadataValue.int(sum(map(_missing_in, rows))),
        "windows": records(COLUMNS, rows),
        FOUND: dg.MetadataValue.json(found),
    }
    if wrong := sorted({*pending, *(differing if look.table.source.retains_absent_keys else ())}):
        metadata[REPAIR] = dg.MetadataValue.json(wrong)
    if drifted:
        metadata["drifted"] = records(["window", "ingested", "now"], (_positions(look, key) for key in drifted))
    return dg.AssetCheckResult(
        asset_key=look.table.key,
        check_name=NAME,
        passed=not windows_in(found, *WRONG),
        severity=dg.AssetCheckSeverity.ERROR if windows_in(found, *BY_ROWS) else dg.AssetCheckSeverity.WARN,
        description=_described(look, found, compared, len(rows)),
        metadata=metadata,
    )


def _number(row: Sequence[object], column: str) -> int:
    """A number of a comparison; 0 where nothing was counted."""
    return int(str(row[COLUMNS.index(column)] or 0))


def _rows_of(row: Sequence[object]) -> int:
    """The rows of a compared window: at the source, or the keys in the log if the source was not read again."""
    return max(_number(row, "rows at source"), _number(row, "keys"))


def _missing_in(row: Sequence[object]) -> int:
    """The rows of a compared window that the table lacks: 1 at least if source and log differ in equal numbers."""
    hashes = {str(row[COLUMNS.index(column)] or "") for column in ("source hash", "log hash")}
    lacking = _number(row, "rows at source") - _number(row, "rows in log")
    return _number(row, "keys pending") + max(lacking, int(len(hashes) > 1))


def _keys(look: Observation, found: Found, *kinds: str) -> list[str]:
    """The partition keys with findings of the given kinds, oldest first."""
    keys = windows_in(found, *kinds)
    return [window.key for window in look.state.windows if window.key in keys]


def _positions(look: Observation, key: str) -> tuple[str, str, str]:
    now = look.state.positions[key]
    return key, look.records[key].summary or look.records[key].fingerprint, now.summary or now.fingerprint


def _rows_in(verdict: dg.AssetCheckResult) -> list[tuple[object, ...]]:
    shown = (verdict.metadata or {}).get("windows")
    rows = shown.records if isinstance(shown, dg.TableMetadataValue) else []
    return [tuple(row.data.get(name) for name in COLUMNS) for row in rows]  # Dagster stores them in another order


def _described(look: Observation, found: Found, compared: Sequence[Compared], windows: int) -> str:
    pending, differing, drifted = (_keys(look, found, kind) for kind in (PENDING, DIFFERING, DRIFTED))
    unreadable = _keys(look, found, UNREADABLE, UNAVAILABLE)
    parts = []
    if pending:
        parts.append(
            f"The table does not match the log for {some(pending)}. The sensor requests these partitions once. What "
            "to do if they are found again: find out who else writes to the table."
        )
    if differing and look.table.source.retains_absent_keys:
        parts.append(
            f"The source has rows that were missing when these partitions were read: {some(differing)}. The sensor "
            "requests them once. What to do if this happens often: declare a longer lag."
        )
    elif differing:
        parts.append(
            f"The source returns other rows than were ingested for {some(differing)}, although its position is the "
            "same. What to do: check that the table's function is deterministic and that nobody edits files in place; "
            "then set another code_version, which validates all rows again, and materialize these partitions."
        )
    if unreadable:
        why = next((f": {one.trouble}" for one in compared if one.trouble), "; the table below says why.")
        parts.append(f"The source could not be read again for {some(unreadable)}{why}")
    if drifted:
        parts.append(
            f"{several(len(drifted), 'window')} changed at the source since the load: {some(drifted)}. What to do: "
            "wait for the sensor, which requests them again, or materialize them."
        )
    if UNSEEN in found:
        parts.append(f"The source could not be checked: {look.trouble}")
    if not parts:
        loaded, since = _keys(look, found, CAUGHT_UP), _drifted(look)
        if windows:
            parts.append(f"Source, log and table agree in {several(windows, 'compared window')}.")
        if loaded:
            were = "was" if len(loaded) == 1 else "were"
            parts.append(f"{several(len(loaded), 'window')} changed at the source and {were} loaded again since.")
        if since:
            parts.append(f"Changed since then, and left to the sensor: {some(since)}.")
        else:
            parts.append(f"None of {several(len(look.records), 'ingested window')} has drifted.")
    if changed := [c.window.key for c in compared if c.code_changed]:
        parts.append(
            f"Not compared with the source, because another version of the code validated them: {some(changed)}."
        )
    if compacted := [c.window.key for c in compared if c.removed]:
        parts.append(f"Not compared with the source, because the log was compacted: {some(compacted)}.")
    return " ".join(parts)

"""Do source, log and table still agree? Looks at the source again and, for some windows, reads it again.

Three questions, from cheap to dear:

1. Does each ingested window still have the position that was ingested (all windows, one listing)? If not, it has
   *drifted*.
2. Does the table hold, for every key of the window, what the log says (chosen windows, one query each)?
3. Does the source, read and validated again, give the rows that the log has (chosen windows that have not drifted)?
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
from incload_assets.checks.observation import Observation, records, several, some
from incload_assets.declaration.window import Window

NAME = "reconciliation"
DESCRIPTION = "Source, change log and table agree, by reading the source again; on demand or schedule, not with loads."

RECENT = 7

__all__ = ["REPAIR", "ReconciliationConfig", "chosen_windows", "first_verdict", "look_again", "reconciliation"]


class ReconciliationConfig(dg.Config):
    """Which ingested windows are compared row by row; positions are always compared for all of them."""

    recent: int = Field(default=RECENT, ge=0, description="How many of the newest ingested windows.")
    partitions: list[str] = Field(default=[], description="These partition keys instead.")
    all_partitions: bool = Field(default=False, description="Every ingested window instead.")


def chosen_windows(look: Observation, config: ReconciliationConfig) -> list[Window]:
    """The ingested windows to compare row by row, oldest first.

    Raises:
        dg.Failure: A partition that was asked for is not ingested.
    """
    ingested = [w for w in look.state.windows if w.key in look.controls]
    if config.partitions:
        known = {w.key for w in ingested}
        if unknown := [key for key in config.partitions if key not in known]:
            raise dg.Failure(
                f"{look.table.name}: partition {some(unknown)} is not ingested. Rule: reconciliation compares ingested "
                "partitions. Remedy: materialize it first, or leave it out of the configuration.",
                allow_retries=False,
            )
        return [w for w in ingested if w.key in config.partitions]
    return ingested if config.all_partitions else ingested[-config.recent :] if config.recent > 0 else []


def reconciliation(
    spark: SparkSession,
    look: Observation,
    config: ReconciliationConfig,
    say: Callable[[str], None] = lambda _: None,
    known: Collection[str] = (),
) -> dg.AssetCheckResult:
    """Whether source, log and table agree; ERROR if rows differ or keys are pending, WARN for drift alone.

    Args:
        spark: A session.
        look: What was seen of the table.
        config: Which windows to compare row by row.
        say: Called with one line per window.
        known: Windows that were found wrong before; they are compared as well, as far as they are ingested.
    """
    chosen = {window.key for window in chosen_windows(look, config)} | ({*known} & look.controls.keys())
    return _new_verdict(look, _compared(spark, look, [w for w in look.state.windows if w.key in chosen], say))


def first_verdict(look: Observation) -> dg.AssetCheckResult:
    """Whether every ingested window still has the position that was ingested; no rows are compared, without Spark."""
    return _new_verdict(look, [])


def look_again(
    session: Callable[[], AbstractContextManager[SparkSession]],
    look: Observation,
    before: dg.AssetCheckResult,
    found: Found,
    loaded: Collection[str],
    say: Callable[[str], None] = lambda _: None,
) -> dg.AssetCheckResult:
    """The verdict on windows that were found wrong before; nothing is asked of others.

    Rows are compared where the window has been loaded since, or where the source did not answer. Whether a window is
    loaded as its source is now is told by its position, without Spark.

    Args:
        session: Opens one, if rows are to be compared.
        look: What was seen of the table; the source could be looked at.
        before: The verdict that told of the windows.
        found: What it found.
        loaded: Which of the windows have been loaded since.
        say: Called with one line per window.
    """
    ingested = [window for window in look.state.windows if window.key in look.controls]
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
    behind = {p.key for p in look.progress if p.position is not None and p.checkpoint != p.position.fingerprint}
    changed = {*known} & behind & look.controls.keys()  # what another load has ingested just now is not loaded yet
    # what changed since then is for the sensor to load, and no finding, unless nobody could tell then
    changed |= {key for key in _drifted(look) if key in known or UNSEEN in found}
    left = {kind: {key: at for key, at in of.items() if key in look.controls} for kind, of in found.items()}
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
    positions, controls = look.state.positions, look.controls
    both = [window.key for window in look.state.windows if window.key in positions and window.key in controls]
    return [key for key in both if controls[key].fingerprint != positions[key].fingerprint]


def _verdict(
    look: Observation, found: Found, compared: Sequence[Compared], kept: Sequence[Sequence[object]]
) -> dg.AssetCheckResult:
    """The verdict that tells of findings, by whatever look, with the comparisons behind them."""
    rows = [*kept, *map(row_of, compared)]
    drifted, pending, differing = (_keys(look, found, kind) for kind in (DRIFTED, PENDING, DIFFERING))
    metadata: dict[str, dg.MetadataValue] = {
        "windows_landed": dg.MetadataValue.int(len(look.controls)),
        "windows_compared": dg.MetadataValue.int(len(rows)),
        "windows_drifted": dg.MetadataValue.int(len(drifted)),
        "windows_differing": dg.MetadataValue.int(len(differing)),
        "keys_pending": dg.MetadataValue.int(sum(int(str(row[COLUMNS.index("keys pending")] or 0)) for row in rows)),
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


def _keys(look: Observation, found: Found, *kinds: str) -> list[str]:
    """The partition keys of some kinds, oldest first."""
    keys = windows_in(found, *kinds)
    return [window.key for window in look.state.windows if window.key in keys]


def _positions(look: Observation, key: str) -> tuple[str, str, str]:
    now = look.state.positions[key]
    return key, look.controls[key].summary or look.controls[key].fingerprint, now.summary or now.fingerprint


def _rows_in(verdict: dg.AssetCheckResult) -> list[tuple[object, ...]]:
    shown = (verdict.metadata or {}).get("windows")
    rows = shown.records if isinstance(shown, dg.TableMetadataValue) else []
    return [tuple(row.data.get(name) for name in COLUMNS) for row in rows]  # they are kept in another order


def _described(look: Observation, found: Found, compared: Sequence[Compared], windows: int) -> str:
    pending, differing, drifted = (_keys(look, found, kind) for kind in (PENDING, DIFFERING, DRIFTED))
    unreadable = _keys(look, found, UNREADABLE, UNAVAILABLE)
    parts = []
    if pending:
        parts.append(
            f"The table does not hold what the log says for {some(pending)}. The sensor asks for these partitions "
            "once; what to do if they are found again: ask who writes to the table beside the loads."
        )
    if differing and look.table.source.retains_absent_keys:
        parts.append(
            f"The source has rows that were not there when they were read: {some(differing)}. The sensor asks for "
            "these partitions once; what to do if this happens often: declare a longer lag."
        )
    elif differing:
        parts.append(
            f"The source gives other rows than were ingested for {some(differing)}, although its position is the same. "
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
    if UNSEEN in found:
        parts.append(f"The source could not be looked at: {look.trouble}")
    if not parts:
        loaded, since = _keys(look, found, CAUGHT_UP), _drifted(look)
        if windows:
            parts.append(f"Source, log and table agree in {several(windows, 'compared window')}.")
        if loaded:
            are = "is" if len(loaded) == 1 else "are"
            parts.append(f"{several(len(loaded), 'window')} changed at the source and {are} loaded as it is now.")
        if since:
            parts.append(f"Changed since then, for the sensor to ask for: {some(since)}.")
        else:
            parts.append(f"None of {several(len(look.controls), 'ingested window')} has drifted.")
    if changed := [c.window.key for c in compared if c.code_changed]:
        parts.append(
            f"Not compared with the source, because another version of the code validated them: {some(changed)}."
        )
    if compacted := [c.window.key for c in compared if c.removed]:
        parts.append(f"Not compared with the source, because the log was compacted: {some(compacted)}.")
    return " ".join(parts)

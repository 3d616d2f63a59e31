"""Ingestion: reads the changes of some windows once, validates them, and commits them to the log at once."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import accepted_rows
from incload_assets.change_log.lake_errors import lost_file
from incload_assets.change_log.staged import FOLDER, Staged
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.carry_over import replaced_rows, staying_rows
from incload_assets.ingest.condition_errors import broken_condition_named
from incload_assets.ingest.facts import Facts, asked, facts_of, has_torn_keys, told
from incload_assets.ingest.full_extracts import extracts_of, marks_of
from incload_assets.ingest.gains import (
    facts_together,
    gain_of,
    has_other_places,
    is_scattered,
    renewal_of,
    with_before,
)
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id, next_number
from incload_assets.ingest.quarantine import check_threshold, check_unknown_fields, is_nothing_else, is_tolerated
from incload_assets.ingest.required_fields import required_fields
from incload_assets.ingest.source_errors import read_error
from incload_assets.ingest.validate import validate
from incload_assets.platform.errors import (
    DeclarationError,
    IncrementalLoadError,
    ReconciliationFailed,
    SourceUnreadable,
)
from incload_assets.platform.sql import combined
from incload_assets.platform.wording import several
from incload_assets.protection.erasures import deny_list_of
from incload_assets.protection.person import check_keys, person_keys_of
from incload_assets.protection.protect import protected

Staging = Callable[[LoadContext, Ingestion], AbstractContextManager[tuple[Ingestion, Staged, Facts]]]
"""Stages the rows of a window; with its facts, and the ingestion with the position that the rows are of."""
Guard = Callable[[LoadContext, Ingestion, Facts], None]
"""A check before the commit, which raises ``ContractViolation`` if the rows must not be ingested."""


@contextmanager
def as_a_whole(load: LoadContext, ingestion: Ingestion) -> Iterator[tuple[Ingestion, Staged, Facts]]:
    """Reads a window once, as a whole."""
    with staged_rows(load, {ingestion.window: ingestion.read}) as (staged, found):
        yield ingestion, staged, found[ingestion.window.key]


def ingest(load: LoadContext, ingestion: Ingestion, guard: Guard | None, staging: Staging = as_a_whole) -> bool:
    """Replaces a window of the log, with its window record, by the source's present content in one fenced commit.

    If the source has only gained rows, only these are added; see :mod:`incload_assets.ingest.gains`. If it can tell
    which part of the window has changed, only this part is read, and the other rows stay. ``guard`` is a
    check before the commit; None: whatever the rows are, they are ingested. False is returned if another ingestion of
    the window came first.

    Raises:
        ContractViolation: Too many rows were rejected; the log keeps its old rows.
        SourceUnreadable, SourceChanged: Errors of the source.
        DeclarationError: The table's function does not fit its contract, or does not return one row for each row.
    """
    gain = gain_of(load, ingestion)
    if gain is not None and not is_scattered(load, ingestion):
        done = _ingest_gain(load, ingestion, gain)
        if done is not None:
            return done
    part = replace(ingestion, part=renewal_of(load, ingestion))
    if part.part is not None and (done := _ingest_part(load, part, guard)) is not None:
        return done
    try:
        return _ingest_whole(load, ingestion, guard, staging)
    except SourceUnreadable:  # for example, as messages that were ingested before have expired
        if gain is None or (done := _ingest_gain(load, ingestion, gain)) is None:
            raise
        return done


def _ingest_whole(load: LoadContext, ingestion: Ingestion, guard: Guard | None, staging: Staging) -> bool:
    """Reads a window as a whole."""
    table, window = load.table, ingestion.window
    with staging(load, ingestion) as (ingestion, staged, facts):
        if guard is not None:
            table.source.check_skipped(table.name, window, facts.only_skipped)
            check_threshold(staged.read(), table, window, facts.rows, facts.rejected)
        load.info(f"{table.name} {window.key}: read {several(facts.rows, 'row')}, {facts.rejected} to quarantine")
        for name in facts.unseen:
            load.info(
                f"{table.name} {window.key}: no record has a value in {name!r}, which a condition of changes uses"
            )
        return _commit(load, ingestion, staged, _with_former(load, ingestion, staged, facts, guard))


def _ingest_gain(load: LoadContext, ingestion: Ingestion, gain: Position) -> bool | None:
    """Adds what the source has gained; None after a problem, which the ingestion of the whole window then reports."""
    table, window, before = load.table, ingestion.window, ingestion.before
    assert before is not None
    tune_ingest(load.spark, None, [window.key], gain.size)
    try:
        with staged_rows(load, {window: gain}) as (staged, found):
            new = found[window.key]
            facts = with_before(load, before, new)
            if (
                new.only_skipped  # the window may have no other rows, which is not for a part of it to say
                or is_nothing_else(facts.rows, facts.rejected)
                or not is_tolerated(table, facts.rows, facts.rejected)
                or has_other_places(load, ingestion, staged.read(), facts)
            ):
                return None
            load.info(
                f"{table.name} {window.key}: read {new.rows} new rows beside {before.rows_read} ingested before, "
                f"{new.rejected} to quarantine"
            )
            return _commit(load, ingestion, staged, facts, base=before)
    except SourceUnreadable:  # for example a missing column that the other files of the window have
        return None


def _ingest_part(load: LoadContext, ingestion: Ingestion, guard: Guard | None) -> bool | None:
    """Reads a part of a window, beside the rows that stay; None after a problem, as in :func:`_ingest_gain`."""
    table, window, before = load.table, ingestion.window, ingestion.before
    assert before is not None
    tune_ingest(load.spark, None, [window.key], ingestion.read.size)
    try:
        with as_a_whole(load, ingestion) as (_, staged, facts):
            if facts.rejected:
                rows = several(facts.rejected, "row")
                load.info(
                    f"{table.name} {window.key}: all groups are computed: {rows} of the changed ones not accepted"
                )
                return None
            rows = several(facts.rows, "row")
            load.info(f"{table.name} {window.key}: computed {rows} of changed groups, beside {before.rows_read} before")
            return _commit(load, ingestion, staged, _with_former(load, ingestion, staged, facts, guard))
    except (IncrementalLoadError, PySparkException) as error:  # for example a file upstream that was vacuumed
        why = error if isinstance(error, IncrementalLoadError) else error.getCondition()
        load.info(f"{table.name} {window.key}: all groups are computed, as the changed ones were not: {why}")
        return None


def _commit(
    load: LoadContext,
    ingestion: Ingestion,
    staged: Staged,
    facts: Facts,
    *,
    base: WindowRecord | None = None,
) -> bool:
    table, window = load.table, ingestion.window
    number = next_number(ingestion.before, ingestion.fence)
    records = {window.key: window_record_of(load, ingestion, facts, number)}
    note = f"ingested {window.key}, run {load.run_id}"
    return commit(load, staged, records, ingestion_app_id(table, window), number, note=note, base=base)


def _with_former(load: LoadContext, ingestion: Ingestion, staged: Staged, facts: Facts, guard: Guard | None) -> Facts:
    """Stages rows that depend on the window's old rows in the log: rows that stay, marks, and markers."""
    table, window, content = load.table, ingestion.window, staged.read()
    more: list[DataFrame] = []
    former = load.log.read(load.spark, ingestion.log_version, [window.key]) if ingestion.before is not None else None
    if former is not None and (staying := staying_rows(load, ingestion, former, content)) is not None:
        content, more = content.unionByName(staying), [staying]
    if table.changes.snapshot_when:
        extracts = extracts_of(content, table, [window.key])
        for extract in extracts[window.key]:
            load.info(f"{table.name} {window.key}: {extract}")
        facts = replace(facts, extracts=extracts[window.key])
        if (marks := marks_of(content, table, extracts)) is not None:
            content, more = content.unionByName(marks, allowMissingColumns=True), [*more, marks]
    if former is not None and (markers := replaced_rows(load, ingestion, former, content)) is not None:
        more.append(markers)
    if more:
        facts = _with_more(load, window, staged, facts, more)
    if guard is not None:
        guard(load, ingestion, facts)
    return facts


def _with_more(load: LoadContext, window: Window, staged: Staged, facts: Facts, more: Sequence[DataFrame]) -> Facts:
    """Stages further rows of a window; its facts, for which the rows that were staged before are not read again."""
    nothing = load.spark.createDataFrame([], load.log.schema)
    rows = combined(partial(DataFrame.unionByName, allowMissingColumns=True), [nothing, *more])
    before, seen = staged.rows(window.key), Observation()
    known = {name for frame in more for name in frame.columns}
    if not staged.write(rows.observe(seen, *asked(load.table)), known):
        return facts
    further = told(seen.get, load.table)
    together = facts_together(load, [facts, further])
    if further.rows + further.replaced != staged.rows(window.key) - before:  # marks, or a repeated task counted twice
        together = facts_of(staged.read(), load.table, [window])[window.key]
    return replace(together, extracts=facts.extracts, unseen=facts.unseen)


@contextmanager
def staged_rows(load: LoadContext, positions: Mapping[Window, Position]) -> Iterator[tuple[Staged, dict[str, Facts]]]:
    """The validated and staged rows of some windows, and the facts of each; uncommitted rows are removed afterwards."""
    table = load.table
    with _reading(load), ExitStack() as held:
        staged, facts = _stage(load, positions, held, places=False)
        if has_torn_keys(staged.read(), table, facts.values()):  # rare, and marking them takes a sort of all rows
            staged, facts = _stage(load, positions, held, places=True)
        if table.evolution.unknown == "stop":
            check_unknown_fields(staged.read(), table)
        yield staged, facts


@contextmanager
def staged_chunk(load: LoadContext, window: Window, position: Position, place: str) -> Iterator[tuple[Staged, Facts]]:
    """The validated and staged rows of a part of a window, in a folder of the log; see :func:`facts_of_chunks`."""
    with _reading(load), ExitStack() as held:
        staged, facts = _stage(load, {window: position}, held, places=False, place=place)
        yield staged, facts[window.key]


def facts_of_chunks(load: LoadContext, staged: Staged, parts: Sequence[Facts]) -> Facts | None:
    """The facts of a window that was staged in chunks; None if it has to be validated as a whole."""
    table = load.table
    with _reading(load):
        facts = facts_together(load, parts)
        if has_torn_keys(staged.read(), table, [facts]):
            return None
        if table.evolution.unknown == "stop":
            check_unknown_fields(staged.read(), table)
    return facts


@contextmanager
def _reading(load: LoadContext) -> Iterator[None]:
    """Translates errors of Spark that the source or a lost file has caused."""
    try:
        yield
    except PySparkException as error:
        name, source = load.table.name, str(load.table.source)
        if meaning := lost_file(error, load.table, load.lake) or read_error(name, error, source):
            raise meaning from error
        raise


def _stage(
    load: LoadContext, positions: Mapping[Window, Position], held: ExitStack, *, places: bool, place: str = FOLDER
) -> tuple[Staged, dict[str, Facts]]:
    table, read, seen = load.table, Observation(), Observation()
    at_source = {window.key: position for window, position in positions.items()}
    fields = (*table.columns, *table.control_fields)
    fields_seen = {f"_{number}": F.col("_raw").getField(name) for number, name in enumerate(table.control_fields)}
    source = table.source.requiring(lambda: required_fields(load.spark, table))
    unobserved = source.extract_windows(load.spark, table.name, at_source, fields)
    extracted = unobserved.observe(
        read,
        F.count(F.lit(1)).alias("rows"),
        *(F.max(value.isNotNull()).alias(at) for at, value in fields_seen.items()),
    )
    staged = held.enter_context(Staged(load.log, load.spark, list(at_source), place))
    with broken_condition_named(extracted, table, min(at_source)):
        accepted = accepted_rows(load.lake, table, at_source, load.info)
        deny = deny_list_of(load.lake, table)  # after the barrier, which the staged rows have read
        keys = held.enter_context(person_keys_of(unobserved, table, load.lake, deny, create=True))
        extracted = protected(extracted, table, keys, deny)
        validated = validate(extracted, table, positions, places=places, accepted=accepted, deny=deny)
        observed = validated.observe(seen, *asked(table)) if len(positions) == 1 else validated
        staged.write(observed, load.log.validated)
        if keys is not None:
            check_keys(staged.read(), table)
        facts = _facts(staged, table, positions, seen)
    rows, values = sum(fact.rows for fact in facts.values()), read.get
    unseen = tuple(name for at, name in zip(fields_seen, table.control_fields, strict=True) if values.get(at) is False)
    facts = {key: replace(fact, unseen=unseen) for key, fact in facts.items()}
    if values.get("rows") != rows:  # an empty frame has no observation, and a repeated task counts twice
        validated_all = len(positions) == 1 and values.get("rows") == seen.get.get("rows")
        _check_counts(table, min(at_source), extracted.count(), rows, validated_all=validated_all)
    return staged, facts


def _facts(staged: Staged, table: Table, of: Collection[Window], seen: Observation) -> dict[str, Facts]:
    """The facts of each window. A single window's are observed, unless Spark repeated a task, which counts twice."""
    if len(of) == 1:
        (window,) = of
        if (values := seen.get).get("rows") == staged.rows(window.key):
            return {window.key: told(values, table)}
    return facts_of(staged.read(), table, of)


def _check_counts(table: Table, window: str, read: int, written: int, *, validated_all: bool) -> None:
    if read == written:
        return
    if validated_all:
        raise ReconciliationFailed(
            f"{table.name} {window}: {read} rows were read, but {written} were written",
            rule="each row that was read is written once; nothing was committed",
            remedy="materialize the partition again; if this repeats, find the other writer to the lake's folders",
        )
    raise DeclarationError(
        f"{table.name} {window}: its function made {several(written, 'row')} of {read}",
        rule="the function is row-wise: it returns one row for each row, so that no row is lost without being counted",
        remedy="do not filter, explode, join or aggregate in it; reject rows that must not load by the contract",
    )


def window_record_of(load: LoadContext, ingestion: Ingestion, facts: Facts, number: int) -> WindowRecord:
    """The window record for the ``number``-th ingestion of a window."""
    return WindowRecord(
        landing=number,
        fingerprint=ingestion.position.fingerprint,
        position=json.dumps(ingestion.position.detail, sort_keys=True, separators=(",", ":")),
        summary=ingestion.position.summary,
        code_version=load.table.code_version,
        run_id=load.run_id,
        landed_at=windows.now(),
        compacted_at=ingestion.before.compacted_at if ingestion.before else None,
        former=ingestion.before.landing if ingestion.before else 0,
        **facts.recorded,
    )

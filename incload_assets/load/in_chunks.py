"""Reads a big window in chunks, several at a time, before it is landed in one commit as any other window.

A killed process leaves the chunks that it has read, and the next load of the window goes on with them, whatever has
started it. A chunk is read again if the source holds something else for it since. Where a key that the window lacks is
deleted, or where the source is to be at rest while it is read, the chunks are proven before they land: the source must
hold for the window what it held before they were read. Chunks with too many rejected rows are not used again, as the
source is to be corrected. ``tests/model/copies.py`` explores this protocol.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from time import monotonic

from incload_assets.change_log.chunks import Chunk, Chunks, InChunks
from incload_assets.change_log.context import LoadContext, ReadSoFar
from incload_assets.change_log.staged import Staged
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingest import Staging, as_a_whole, facts_of_chunks, staged_chunk
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.load.detection import detect
from incload_assets.platform.errors import ContractViolation, IncrementalLoadError, SourceChanged
from incload_assets.platform.progress import tell
from incload_assets.platform.wording import several

ROUNDS = 5
"""How often chunks are read that the source has changed meanwhile, or whose files are gone."""
MOST_CHUNKS = 1000


def refuse_chunks(table: Table) -> None:
    """Refuses a table whose windows cannot be read in chunks: rows are validated beside others, or the source cannot.

    Raises:
        IncrementalLoadError: With the reason, and what to do instead.
    """
    keys, unique, source = table.changes.keys, table.contract.unique, table.source
    if not source.divides():
        why = f"{source} cannot divide the rows of a window"
    elif unique and keys and not set(keys) <= set(unique):
        why = f"{', '.join(unique)} is unique, and a value is compared with all rows of its window"
    elif together := table.write.together():
        why = f"rows of equal {', '.join(together)} are accepted or rejected together, and may be in several chunks"
    else:
        return
    raise IncrementalLoadError(
        f"{table.name}: its windows cannot be read in chunks: {why}",
        rule="a chunk is read and validated by itself; QueryByTime, QueryById, Files and Kafka can be divided",
        remedy=f"load the partition as a whole: incload load {table.name} --partitions KEY",
    )


def staging_of(load: LoadContext, ingestion: Ingestion, asked: InChunks | None) -> Staging:
    """How a window is staged: in chunks if it was never landed and that is asked for, or was begun; else as a whole."""
    if ingestion.before is not None or load.scratch is not None or not load.table.source.divides():
        return as_a_whole
    chunks = Chunks(load.log, ingestion.window.key)
    if asked is None and chunks.begun():
        with Staged(load.log, load.spark, [ingestion.window.key]) as staged:
            asked = next((chunk.asked for chunk in chunks.found(staged)), None)
    return partial(_in_chunks, asked=asked) if asked is not None else as_a_whole


@contextmanager
def _in_chunks(
    load: LoadContext, ingestion: Ingestion, *, asked: InChunks
) -> Iterator[tuple[Ingestion, Staged, Facts]]:
    refuse_chunks(load.table)
    chunks = Chunks(load.log, ingestion.window.key)
    try:
        with _landed_together(load, ingestion, chunks, asked) as found:
            yield found
    except ContractViolation:
        chunks.forget()  # a row that is corrected at the source may leave no trace in what identifies its chunk
        raise
    if load.log.record(ingestion.window.key) is not None:
        chunks.forget()


@contextmanager
def _landed_together(
    load: LoadContext, ingestion: Ingestion, chunks: Chunks, asked: InChunks
) -> Iterator[tuple[Ingestion, Staged, Facts]]:
    table, window = load.table, ingestion.window
    with Staged(load.log, load.spark, [window.key]) as staged:
        position, read = _read_and_proven(load, ingestion, chunks, staged, asked)
        staged.files.extend(file for chunk in read for file in chunk.files)
        parts = [Facts.of_record(chunk.facts, chunk.unseen) for chunk in read]
        if read and (facts := facts_of_chunks(load, staged, parts)) is not None:
            yield replace(ingestion, position=position), staged, facts
            return
    load.info(f"{table.name} {window.key}: read as a whole, as it is empty, or a key has rows in two partitions")
    with as_a_whole(load, replace(ingestion, position=position)) as whole:
        yield whole


def _read_and_proven(
    load: LoadContext, ingestion: Ingestion, chunks: Chunks, staged: Staged, asked: InChunks
) -> tuple[Position, list[Chunk]]:
    """The chunks of a window, and the position that they are of: each is as new as that, or newer."""
    table, window, position = load.table, ingestion.window, ingestion.position
    changes = table.source.changes_while_read and not (table.changes.snapshot_when or table.write.supersedes)
    for _ in range(ROUNDS):
        there = {chunk.position.fingerprint: chunk for chunk in chunks.found(staged)}
        known = [chunk.position for chunk in there.values()]
        wanted = table.source.divided(table.name, position, asked.number, known)
        done = [there[one.fingerprint] for one in wanted if one.fingerprint in there]
        missing = [one for one in wanted if one.fingerprint not in there]
        read = [*done, *_read(load, window, position, chunks, asked, done, missing)]
        if missing and not _are_there(load, chunks, staged, read):
            load.info(f"{table.name} {window.key}: chunks whose files are gone, or that are too old, are read again")
            continue
        if changes:
            former = [one.of for one in there.values() if one in done and table.source.retains_absent_keys]
            # what the oldest chunk may lack of a later position must not count as landed
            return (former or [position])[0], read
        now = detect(load, [window]).get(window.key)
        if now is None or now.fingerprint == position.fingerprint:
            return position, read
        load.info(
            f"{table.name} {window.key}: the source has changed while chunks were read; what changed is read again"
        )
        position = now
    raise SourceChanged(
        f"{table.name} {window.key}: the source changed, or files of chunks were removed, during each of {ROUNDS} "
        "attempts to read it in chunks",
        rule="chunks land together, once the source holds what it held before they were read",
        remedy="none if the writer pauses, as the load is tried again and goes on with the chunks that did not change",
    )


def _are_there(load: LoadContext, chunks: Chunks, staged: Staged, read: Sequence[Chunk]) -> bool:
    """False if files were removed, or chunks have become too old, while others were read for hours."""
    with Staged(load.log, load.spark, staged.windows) as now:
        if (now.barrier, list(now.foreign)) != (staged.barrier, list(staged.foreign)):
            return True  # the commit is refused, and the next attempt reads again what has to be read
    if any(load.log.record(window) is not None for window in staged.windows):
        return True  # another load has landed the window, and forgotten the chunks: the commit decides
    there = {file.path for chunk in chunks.found(staged) for file in chunk.files}
    return all(file.path in there for chunk in read for file in chunk.files)


def _read(
    load: LoadContext,
    window: Window,
    of: Position,
    chunks: Chunks,
    asked: InChunks,
    done: Sequence[Chunk],
    missing: Sequence[Position],
) -> Iterator[Chunk]:
    """Reads chunks, several at a time; those that were read stay if another one fails."""
    began, name = monotonic(), f"{load.table.name} {window.key}"
    before = weight = sum(_weight(one.position) for one in done)
    whole = before + sum(map(_weight, missing))
    number, rows = len(done), sum(one.rows for one in done)
    if done:
        load.info(f"{name}: {several(len(done), 'chunk')} were read before, and the source still holds them")

    def read(position: Position) -> Chunk:
        with staged_chunk(load, window, position, chunks.place) as (staged, facts):
            return chunks.keep(staged, position, of, asked, facts.recorded, facts.unseen)

    if not missing:
        return
    # an erasure removes a person from all files, so that nothing is to be written while it has its turn
    beside = load.beside_others() if load.table.subject is None else nullcontext()
    with beside, ThreadPoolExecutor(asked.at_once, "incload-chunk") as pool:
        futures: list[Future[Chunk]] = [pool.submit(read, position) for position in missing]
        try:
            for future in as_completed(futures):
                chunk = future.result()
                number, rows, weight = number + 1, rows + chunk.rows, weight + _weight(chunk.position)
                left = (monotonic() - began) / (weight - before) * (whole - weight)
                so_far = ReadSoFar(window.key, number, len(done) + len(missing), rows, weight / whole, left)
                load.info(f"{name}: {so_far}")
                load.advanced(so_far)
                tell(f"{name}: {so_far}")
                yield chunk
        finally:
            for future in futures:
                future.cancel()
            tell("")


def _weight(position: Position) -> int:
    return max(position.size, 1)

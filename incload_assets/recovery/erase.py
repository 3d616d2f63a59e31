"""Erasure of a person from the lake, with a proof.

1. The subject's fingerprints are put into the deny list, and the barrier of each log is raised: from now on nothing
   brings the person back, see :mod:`incload_assets.change_log.erasures`.
2. Former landings are written again without the person's rows, then log and table, see
   :mod:`incload_assets.recovery.erase_rows`. Decisions of people about rejected rows of the person are removed.
3. All old versions of these Delta tables are removed, see :mod:`incload_assets.recovery.old_versions`.
4. Every file of the lake is searched, see :mod:`incload_assets.recovery.traces`. The result is in the audit.

An erasure that was interrupted is repeated from the beginning; what is done already is found to be done.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic, sleep

import dagster as dg
import pyarrow.fs as pafs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import CHANGES, REJECTED
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import decisions_uri, forget_decisions, rejected_row_id
from incload_assets.change_log.erasures import (
    DenyList,
    check_fingerprints,
    deny,
    deny_list_of,
    keys_scope,
    raise_barrier,
    subjects_scope,
)
from incload_assets.change_log.former import FormerLanding, FormerLandings
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.ingest.erased import IS_ERASED, fingerprints_of_keys, marked_erased
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.checkpoint import loading_now
from incload_assets.progress.pause import pause, pause_of, resume
from incload_assets.recovery.erase_rows import ErasedRows, counts_by_kind, erase_rows, rows_found, table_rows_found
from incload_assets.recovery.erasure import Erasure, tables_of
from incload_assets.recovery.old_versions import Removed, remove_old_versions
from incload_assets.recovery.traces import Search
from incload_assets.sources.upstream.tables import Tables
from resources.errors import ConcurrentLoad, IncrementalLoadError
from resources.lake import SHADOW_FOLDER, Lake

ATTEMPTS = 5
MOST_KEYS = 100_000
"""Most keys of one person whose changes may lack their subject."""
_POLL = 2.0
"""Seconds between two looks at runs under way."""
_WHILE = timedelta(hours=12)
"""The longest time that tables are paused for."""


@dataclass(frozen=True)
class Eraser:
    """Erases one person from a lake.

    Args:
        spark: A session used by this erasure only.
        lake: The lake.
        tables: All tables of the code location.
        kind: The kind of person.
        fingerprints: The person's fingerprints, see :func:`incload_assets.recovery.erasure.fingerprints_of`.
        run_id: The Dagster run, recorded in the audit; empty if none.
        info: Hears one line for each step.
        done: Hears the number of files searched, and of all.
        patience: How long to wait for runs under way.

    Example:
        >>> found = fingerprints_of(tables, "customer", "c-17")  # doctest: +SKIP
        >>> Eraser(spark, lake, tables, "customer", found).erase(instance).is_proven  # doctest: +SKIP
        True
    """

    spark: SparkSession
    lake: Lake
    tables: Sequence[Table]
    kind: str
    fingerprints: frozenset[str]
    run_id: str = ""
    info: Callable[[str], None] = lambda _: None
    done: Callable[[int, int], None] = lambda *_: None
    patience: timedelta = timedelta(minutes=10)

    def plan(self) -> Erasure:
        """What an erasure would find; nothing is changed."""
        check_fingerprints(self.fingerprints)
        listed, tables = DenyList(self.fingerprints), {}
        for load in self._loads():
            found = rows_found(load, listed)
            tables[load.table.name] = ErasedRows(
                windows=len(found),
                changes=sum(sum(kinds.values()) for kinds in found.values()),
                rejected=sum(kinds.get(REJECTED, 0) for kinds in found.values()),
                rows=table_rows_found(load, listed),
            )
        return Erasure(self.kind, tables, self._search().traces(self.lake, done=self.done), unreached=self._unreached())

    def erase(self, instance: dg.DagsterInstance, *, because: str = "", actor: str = "") -> Erasure:
        """Erases the person, and proves it. The tables are paused meanwhile.

        Args:
            instance: Dagster's instance.
            because: The reason, for the audit.
            actor: Who asked for it; default: the operating system's user.

        Raises:
            IncrementalLoadError: A run may be loading a table, or a table has a shadow; nothing was changed.
            ConcurrentLoad: Others wrote first in every attempt.
            SourceUnreadable: The fingerprints are of another key, or the key is missing.
        """
        check_fingerprints(self.fingerprints)
        self._refuse_shadows()
        with self._paused(instance, because, actor):
            made = self._erased()
        action = AuditEntry(action="erase", actor=actor, because=because, run_id=self.run_id, details=made.details())
        record(self.lake, action)
        return made

    def _erased(self) -> Erasure:
        deny(self.lake, subjects_scope(self.kind), self.fingerprints)
        tables: dict[str, ErasedRows] = {}
        removed, rewritten, forgotten, decisions = Removed(), 0, 0, 0
        for load in self._loads():
            name = load.table.name
            self.info(f"{name}: looks for rows of the {self.kind}")
            listed = self._barred(load)
            decisions += forget_decisions(self.lake, self._rejected_ids(load, listed))
            rewritten += self._rewrite_former(load, listed)
            tables[name] = erase_rows(load, listed)
            forgotten += self._forget_former(load)
            for uri in (load.uri, load.log.uri):
                removed += self._without_old_versions(uri)
            self.info(f"{name}: {tables[name].changes} changes and {tables[name].rows} rows are erased")
        if self.lake.delta(decisions_uri(self.lake)) is not None:
            removed += self._without_old_versions(decisions_uri(self.lake))
        self.info("reads every file of the lake")
        traces = self._search().traces(self.lake, done=self.done)
        return Erasure(self.kind, tables, traces, removed, (rewritten, forgotten), decisions, self._unreached())

    def _loads(self) -> Iterator[LoadContext]:
        """The context of each table with such persons that was loaded."""
        for table in tables_of(self.tables, self.kind):
            load = LoadContext(self.spark, table, self.lake.followed(), self.run_id, self.info)
            if load.log.version() is not None and load.lake.version(load.uri) is not None:
                yield load

    def _barred(self, load: LoadContext) -> DenyList:
        """The deny list, with the keys of the person, once no landing can be committed that did not regard it."""
        raised = False
        for _ in range(ATTEMPTS):
            listed = deny_list_of(self.lake, load.table)
            # a rejected row's key, too, as its delete may be a valid change
            rows = load.log.read(self.spark, load.log.open().version()).filter(F.col("_kind").isin(*CHANGES, REJECTED))
            keys = fingerprints_of_keys(rows, load.table, listed).head(MOST_KEYS + 1)
            if len(keys) > MOST_KEYS:
                raise IncrementalLoadError(
                    f"{load.table.name}: more than {MOST_KEYS:,} keys of the {self.kind}",
                    rule="the keys of a person are denied one by one, as their deletes do not name the person",
                    remedy=f"give deletes the column {load.table.subject and load.table.subject.by}, or erase by hand",
                )
            is_new = deny(self.lake, keys_scope(load.table), [row["fingerprint"] for row in keys])
            if raised and not is_new:
                return listed
            raise_barrier(self.spark, self.lake, load.log.uri)
            raised = True
        raise ConcurrentLoad(
            f"{load.table.name}: new keys of the {self.kind} were landed in each of {ATTEMPTS} attempts",
            rule="no landing can bring a person back once the erasure has begun",
            remedy="repeat the erasure",
        )

    def _rejected_ids(self, load: LoadContext, listed: DenyList) -> set[str]:
        """The identifiers of the person's rows that other people may have decided about."""
        rows = load.log.read(self.spark, load.log.open().version()).filter(F.col("_payload").isNotNull())
        marked = marked_erased(rows, load.table, listed, rejected=F.col("_kind") == REJECTED)
        ids = marked.filter(F.col(IS_ERASED)).select(rejected_row_id().alias("row")).distinct().head(MOST_KEYS)
        return {row["row"] for row in ids}

    def _rewrite_former(self, load: LoadContext, listed: DenyList) -> int:
        """Writes former landings again without the person, as far as their files are kept."""
        former, count = FormerLandings(load.log), 0
        for landing, has_trace, is_whole in self._searched(former):
            if not (has_trace and is_whole):
                continue
            rows = former.read(self.spark, landing)
            marked = marked_erased(rows, load.table, listed, rejected=F.col("_kind") == REJECTED)
            erased = counts_by_kind(marked.filter(F.col(IS_ERASED)))
            record = replace(
                landing.record,
                rejected=landing.record.rejected - erased.get(REJECTED, 0),
                erased=landing.record.erased + sum(erased.values()),
            )
            former.rewrite(landing, marked.filter(~F.col(IS_ERASED)).drop(IS_ERASED), record)
            count += 1
        if count:
            former.prune(now(), abandoned=timedelta(0))
        return count

    def _forget_former(self, load: LoadContext) -> int:
        """Forgets former landings that still have the person, or whose files are gone."""
        former, count = FormerLandings(load.log), 0
        for landing, has_trace, is_whole in self._searched(former):
            if has_trace or not is_whole:
                former.forget(landing)
                count += 1
        former.prune(now(), abandoned=timedelta(0))
        return count

    def _searched(self, former: FormerLandings) -> Iterator[tuple[FormerLanding, bool, bool]]:
        """The former landings, each with whether a file has a trace, and whether all files are kept."""
        paths = [(landing, former.paths(landing).values()) for landing in former.all()]
        named = [path for _, several in paths for path in several if path is not None]
        found = set(self._search().traces(self.lake, named).found)
        for landing, places in paths:
            yield landing, not found.isdisjoint(places), None not in places

    def _without_old_versions(self, uri: str) -> Removed:
        return remove_old_versions(self.lake, uri, lambda: raise_barrier(self.spark, self.lake, uri))

    def _search(self) -> Search:
        found = tables_of(self.tables, self.kind)
        return Search(self.fingerprints, frozenset(table.subject.by for table in found if table.subject is not None))

    def _unreached(self) -> list[str]:
        """What may hold the person, and is no file of the lake or of another declaration."""
        found = tables_of(self.tables, self.kind)
        paths = {tuple(table.key.path): table.name for table in found}
        left = [
            f"the source of {table.name}: {table.source}" for table in found if not isinstance(table.source, Tables)
        ]
        for table in self.tables:
            if table not in found and isinstance(table.source, Tables):
                read = sorted(paths[each.path] for each in table.source.of if each.path in paths)
                if read:
                    left.append(
                        f"{table.name}, which is derived from {', '.join(read)} and declares no subject: its next load "
                        "follows, its older versions stay until the vacuum"
                    )
        return [*left, "backups, other copies of the lake, Dagster's storage, and logs of processes"]

    def _refuse_shadows(self) -> None:
        for load in self._loads():
            place = f"{SHADOW_FOLDER}/{load.table.identifier}"
            with self.lake.files(self.lake.root) as files:
                found = files.get_file_info(pafs.FileSelector(place, recursive=True, allow_not_found=True))
            if any(info.type == pafs.FileType.File for info in found):
                raise IncrementalLoadError(
                    f"{load.table.name} has a shadow in {self.lake.root}/{place}",
                    rule="a shadow is a copy of the table, which an erasure does not know",
                    remedy=f"remove it: incload shadow {load.table.name} --drop",
                )

    @contextmanager
    def _paused(self, instance: dg.DagsterInstance, because: str, actor: str) -> Iterator[None]:
        """Pauses the tables within the block, in which no run loads them."""
        begin = f"a {self.kind} is erased"
        pauses = {load.table.name: pause_of(self.lake, load.table.name) for load in self._loads()}
        # a pause of an erasure that was killed is taken over
        mine = [name for name, found in pauses.items() if found is None or found.because.startswith(begin)]
        why = begin + (f": {because}" if because else "")
        begun: list[str] = []
        try:
            for name in mine:
                pause(self.lake, name, now() + _WHILE, why, actor=actor, run_id=self.run_id)
                begun.append(name)
            self._wait_for_runs(instance)
            yield
        finally:
            for name in begun:
                resume(self.lake, name, "the erasure has ended", actor=actor, run_id=self.run_id)

    def _wait_for_runs(self, instance: dg.DagsterInstance) -> None:
        """Waits until no run loads the tables; a paused table gets no new ones."""
        until = monotonic() + self.patience.total_seconds()
        for load in self._loads():
            while runs := [run for run in loading_now(instance, load.table.key) if run != self.run_id]:
                if monotonic() > until:
                    raise IncrementalLoadError(
                        f"{load.table.name}: runs that may load it are under way: {', '.join(sorted(runs))}",
                        rule=f"no run loads a table while a person is erased from it; waited for {self.patience}",
                        remedy="wait until they have ended, or cancel them, and repeat the erasure",
                    )
                self.info(f"{load.table.name}: waits for {len(runs)} runs under way")
                sleep(min(_POLL, self.patience.total_seconds()))

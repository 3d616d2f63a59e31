"""Erasure of a person from the lake, with a proof.

1. The subject's fingerprints are put into the deny list, and the barrier of each log is raised: from now on nothing
   brings the person back, see :mod:`incload_assets.protection.erasures`.
2. Former landings are written again without the person's rows, then log and table, see
   :mod:`incload_assets.erasure.erase_rows`. Decisions of people about rejected rows of the person are removed.
3. All old versions of these Delta tables are removed, see :mod:`incload_assets.erasure.old_versions`.
4. Every file of the lake is searched, see :mod:`incload_assets.erasure.person_search`. The result is in the audit.

An erasure that was interrupted is repeated from the beginning; what is done already is found to be done.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import dagster as dg
import pyarrow.fs as pafs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import CHANGES, REJECTED
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import decisions_uri, forget_decisions, rejected_row_id, values_by_row
from incload_assets.change_log.former import FormerLanding, FormerLandings
from incload_assets.change_log.window_records import forget_shared_records
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.erasure.alone import alone, holder_of, wait_for_runs
from incload_assets.erasure.erase_rows import ErasedRows, erase_rows, rows_found, table_rows_found
from incload_assets.erasure.erasure import Erasure, derived_without_subject, tables_of
from incload_assets.erasure.old_versions import Removed, remove_old_versions
from incload_assets.erasure.person_search import Search, files_with_keys
from incload_assets.ingest.erased import IS_ERASED, fingerprints_of_keys, marked_erased
from incload_assets.ingest.erased_counts import counts_by_kind, without_erased_records
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError
from incload_assets.platform.lake import SHADOW_FOLDER, Lake
from incload_assets.platform.wording import several
from incload_assets.progress.audit import FAILED, AuditEntry, record
from incload_assets.protection.erasures import (
    DenyList,
    check_fingerprints,
    deny,
    deny_list_of,
    keys_scope,
    raise_barrier,
    subjects_scope,
)
from incload_assets.protection.person_keys import forget_persons, person_keys_uri, store_of
from incload_assets.sources.upstream.tables import Tables

ATTEMPTS = 5
MOST_KEYS = 100_000
"""Most keys of one person whose changes may lack their subject."""


@dataclass(frozen=True)
class Eraser:
    """Erases one person from a lake.

    Args:
        spark: A session used by this erasure only.
        tables: All tables of the code location.
        fingerprints: The person's fingerprints, see :func:`incload_assets.erasure.erasure.fingerprints_of`.
        run_id: The Dagster run, recorded in the audit; empty if none.
        info: Receives one line for each step.
        done: Receives the number of files searched, and of all.
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
        """The findings that an erasure would have; nothing is changed."""
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

        ``because`` and ``actor`` (default: the operating system's user) are for the audit.

        Raises:
            IncrementalLoadError: A run may be loading a table, another person is being erased from it, or it has a
                shadow; nothing was changed.
            ConcurrentLoad: Others wrote first in every attempt.
            SourceUnreadable: The fingerprints are of another key, or the key is missing.
        """
        check_fingerprints(self.fingerprints)
        store_of(self.lake)  # refuses if the keys of persons are elsewhere
        self._refuse_shadows()
        tables = tables_of(self.tables, self.kind)
        holder = holder_of(self.kind, self.fingerprints)
        steps = ["its beginning"]

        def tell(step: str) -> None:
            steps.append(step)
            self.info(step)

        action = AuditEntry(action="erase", actor=actor, because=because, run_id=self.run_id)
        try:
            with alone(self.lake, tables, self.kind, holder, because=because, actor=actor, run_id=self.run_id):
                wait_for_runs(instance, tables, but=self.run_id, patience=self.patience, info=self.info)
                made = replace(self, info=tell)._erased()
        except BaseException as error:  # also of an interrupted run, which has to be repeated from now on
            # the text of the error is left out, because it may contain values
            failed = {"kind": self.kind, FAILED: type(error).__name__, "at": steps[-1]}
            with suppress(Exception):  # else the error of a lake that is out of reach would hide this one
                record(self.lake, replace(action, details=failed))
            raise
        record(self.lake, replace(action, details=made.details()))
        return made

    def _erased(self) -> Erasure:
        deny(self.lake, subjects_scope(self.kind), self.fingerprints)
        tables: dict[str, ErasedRows] = {}
        keys, removed = self._forget_keys()
        rewritten, forgotten, decisions = 0, 0, 0
        for load in self._loads():
            name = load.table.name
            self.info(f"{name}: looks for rows of the {self.kind}")
            listed = self._barred(load)
            decisions += forget_decisions(self.lake, self._decided_rows(load, listed))
            rewritten += self._rewrite_former(load, listed)
            tables[name] = erase_rows(load, listed)
            forgotten += self._forget_former(load)
            for uri in (load.uri, load.log.uri):
                removed += self._without_old_versions(uri)
            self.info(
                f"{name}: erased {several(tables[name].changes, 'change')} and {several(tables[name].rows, 'row')}"
            )
        if self.lake.delta(decisions_uri(self.lake)) is not None:
            removed += self._without_old_versions(decisions_uri(self.lake))
        more = self._forget_keys()  # of a load, or a compaction, that had begun before
        keys, removed = keys + more[0], removed + more[1]
        forget_shared_records()
        self.info("reads every file of the lake")
        traces = self._search().traces(self.lake, done=self.done)
        traces = replace(traces, found=(*traces.found, *files_with_keys(self.lake, self.fingerprints)))
        return Erasure(
            self.kind, tables, traces, removed, (rewritten, forgotten), decisions, self._unreached(), keys=keys
        )

    def _forget_keys(self) -> tuple[int, Removed]:
        """Deletes the person's key first: from now on encrypted values cannot be read, in any copy of the lake."""
        keys = forget_persons(self.lake, self.kind, self.fingerprints)
        if store_of(self.lake) is None:
            return keys, Removed()
        return keys, self._without_old_versions(person_keys_uri(self.lake))

    def _loads(self) -> Iterator[LoadContext]:
        """The context of each table with such persons that was loaded."""
        for table in tables_of(self.tables, self.kind):
            load = LoadContext(self.spark, table, self.lake.followed(), self.run_id, self.info)
            if load.log.version() is not None and load.lake.version(load.uri) is not None:
                yield load

    def _barred(self, load: LoadContext) -> DenyList:
        """The deny list, with the keys of the person, once no landing can be committed that has not respected it."""
        raised = False

        def barred() -> DenyList | None:
            nonlocal raised
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
            return None

        lost = ConcurrentLoad(
            f"{load.table.name}: new keys of the {self.kind} were landed in each of {ATTEMPTS} attempts",
            rule="no landing can bring a person back once the erasure has begun",
            remedy="repeat the erasure",
        )
        return in_attempts(ATTEMPTS, barred, lost)

    def _decided_rows(self, load: LoadContext, listed: DenyList) -> set[str]:
        """Identifiers of rows that people have decided about: the person's, and given to the person, even if gone."""
        if not (decided := values_by_row(self.lake, load.table)):
            return set()
        rows = load.log.read(self.spark, load.log.open().version()).filter(F.col("_payload").isNotNull())
        marked = marked_erased(rows, load.table, listed, rejected=F.col("_kind") == REJECTED)
        these = self.spark.createDataFrame([(one,) for one in sorted(decided)], "row string")
        ids = marked.filter(F.col(IS_ERASED)).select(rejected_row_id().alias("row")).join(these, "row", "semi")
        given = {row for row, several in decided.items() if any(map(self._search().is_in, several))}
        return given | {row["row"] for row in ids.distinct().head(len(decided))}

    def _rewrite_former(self, load: LoadContext, listed: DenyList) -> int:
        """Writes former landings again without the person, as far as their files are kept."""
        former, count = FormerLandings(load.log), 0
        for landing, has_trace, is_whole in self._searched(former):
            if not (has_trace and is_whole):
                continue
            rows = former.read(self.spark, landing)
            marked = marked_erased(rows, load.table, listed, rejected=F.col("_kind") == REJECTED)
            erased = counts_by_kind(marked.filter(F.col(IS_ERASED)))
            left = marked.filter(~F.col(IS_ERASED)).drop(IS_ERASED)
            former.rewrite(landing, left, without_erased_records(landing.record, erased))
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
        """The places that may hold the person, and are no files of the lake or of another declaration."""
        found = tables_of(self.tables, self.kind)
        left = [
            f"the source of {table.name}: {table.source}" for table in found if not isinstance(table.source, Tables)
        ]
        for table, above in derived_without_subject(self.tables, found):
            left.append(
                f"{table.name}, which is derived from {', '.join(above)} and declares no subject: its next load "
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

"""The readiness of a table for production: a list of requirements, each with its remedy."""

import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg

from incload_assets.checks import checks_for
from incload_assets.checks.reconciliation import NAME as RECONCILIATION
from incload_assets.declaration.slo import Criticality
from incload_assets.declaration.table import Table
from incload_assets.monitoring.facts import Facts, TableFacts
from incload_assets.monitoring.readiness.alert_rules import AlertRule, rules_at, rules_in
from incload_assets.monitoring.readiness.encryption import connections, stores
from incload_assets.platform.dagster_private import InstigatorType
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.wording import spoken
from incload_assets.progress.audit import chain_of, chosen
from incload_assets.progress.backup import backups, is_sqlite, made_at

DOCS = Path(__file__).parents[2] / "docs"
RECENTLY = timedelta(days=7)
"""How old a reconciliation may be."""
ALIVE = timedelta(minutes=5)
"""How long ago daemons and sensors have given a sign of life."""
LATELY = timedelta(days=365)
"""How long ago an undo was tried."""
DAEMONS = ("SENSOR", "SCHEDULER", "QUEUED_RUN_COORDINATOR")
BACKED_UP_WITHIN = timedelta(days=2)
"""How old the last backup of Dagster's storage may be."""
DURABLE = ("dagster_postgres", "dagster_mysql")
"""The packages of Dagster's storages that outlive a machine."""
TOLD: dict[Criticality, str] = {
    "high": "high: somebody is paged",
    "normal": "normal: a ticket",
    "low": "low: nobody is notified",
}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """A table and everything around it that decides whether it is ready.

    Args:
        facts: What storage says about all tables now.
        schedules: Names of the schedules that reconcile the table.
        docs: The folder with the pages of the documentation.
    """

    table: Table
    facts: Facts
    instance: dg.DagsterInstance
    settings: Settings
    schedules: Collection[str] = ()
    docs: Path = DOCS

    @property
    def own(self) -> TableFacts:
        """The facts that storage has about the table."""
        return self.facts.tables[self.table.name]

    @property
    def at(self) -> datetime:
        """The instant of the facts."""
        return self.facts.at


@dataclass(frozen=True)
class Finding:
    """The answer to a requirement: whether it is met, and what was found, for people; without secrets."""

    passed: bool
    says: str


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """Something that a table needs before others may rely on it, and what to do if it is not met."""

    name: str
    evaluate: Callable[[Circumstances], Finding]
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A requirement with its finding; without a remedy if it is met."""

    name: str
    passed: bool
    says: str
    remedy: str = ""


def verdicts(around: Circumstances, requirements: Sequence["Requirement"] | None = None) -> list[Verdict]:
    """The verdict on each requirement, in their order, by default all; one that cannot be evaluated is not met."""
    found = []
    for each in REQUIREMENTS if requirements is None else requirements:
        try:
            finding = each.evaluate(around)
        except IncrementalLoadError as error:
            finding = Finding(False, str(error))
        found.append(
            Verdict(
                name=each.name,
                passed=finding.passed,
                says=finding.says,
                remedy="" if finding.passed else each.remedy,
            )
        )
    return found


def _freshness(around: Circumstances) -> Finding:
    table = around.table
    if table.freshness is None and table.slo.freshness is None:
        return Finding(False, f"none; {spoken(table.promised)} are assumed")
    return Finding(True, f"{spoken(table.promised)} for 95 % of windows and changes")


def _owner(around: Circumstances) -> Finding:
    owners = around.table.owners
    return Finding(bool(owners), ", ".join(owners) or "none")


def _criticality(around: Circumstances) -> Finding:
    return Finding(True, TOLD[around.table.criticality])


def _alerts(around: Circumstances) -> Finding:
    settings, table = around.settings, around.table.name
    rules: list[AlertRule]
    if settings.prometheus_url is not None:
        rules, where = rules_at(settings.prometheus_url), "loaded by Prometheus"
    elif settings.monitoring is not None:
        rules, where = rules_in(settings.monitoring), "rendered"
    else:
        return Finding(False, "neither INCLOAD_PROMETHEUS_URL nor INCLOAD_MONITORING is set")
    count = sum(rule.covers(table) for rule in rules)
    named = [rule for rule in rules if rule.names_tables]  # rendered before the table was declared, none names it
    return Finding(
        any(rule.covers(table) for rule in named or rules),
        f"{count} of {len(rules)} rules that are {where} watch the table",
    )


def _reconciliation_scheduled(around: Circumstances) -> Finding:
    states = around.instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE)
    running = sorted({state.instigator_name for state in states if state.is_running} & {*around.schedules})
    if running:
        return Finding(True, ", ".join(running))
    known = f"{', '.join(sorted(around.schedules))}, not running" if around.schedules else "no schedule has the check"
    return Finding(False, known)


def _reconciliation_green(around: Circumstances) -> Finding:
    found = around.own.checks.get(RECONCILIATION)
    if found is None:
        return Finding(False, "it was never evaluated")
    if not found.values.get("windows_compared"):
        return Finding(False, "it compared positions only, and no rows")
    when = f"{found.at:%Y-%m-%d %H:%M} UTC"
    if around.at - found.at > RECENTLY:
        return Finding(False, f"the last one was at {when}")
    return Finding(found.passed, f"{'passed' if found.passed else 'failed'} at {when}")


def _durable(around: Circumstances) -> Finding:
    instance = around.instance
    storages = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
    kinds = sorted({type(storage).__module__.partition(".")[0] for storage in storages if storage is not None})
    if all(kind in DURABLE for kind in kinds):
        return Finding(True, f"{', '.join(kinds)}; whether it is backed up cannot be seen from here")
    named = "SQLite" if any("sqlite" in type(storage).__module__ for storage in storages) else "storage in memory"
    folder = instance.root_directory if instance.is_persistent else ""
    where = " in a temporary folder" if folder and _is_temporary(folder) else ""
    newest = next(reversed(backups(around.settings.backups_root)), None)
    if newest is None:
        return Finding(False, f"{named}{where}, without a backup")
    made = made_at(newest)
    saved = f"{named}{where}, last backup at {made:%Y-%m-%d %H:%M} UTC"
    return Finding(is_sqlite(instance) and not where and around.at - made < BACKED_UP_WITHIN, saved)


def _readable(around: Circumstances) -> Finding:
    return Finding(around.own.unreadable is None, around.own.unreadable or "table and log can be opened")


def _lake(around: Circumstances) -> Finding:
    root = around.settings.lake_root
    if "://" in root:
        return Finding(True, f"{root.partition('://')[0]} object store")
    return Finding(not _is_temporary(root), f"{'a temporary folder' if _is_temporary(root) else 'a folder'}: {root}")


def _is_temporary(folder: str) -> bool:
    """True if a folder is where the system removes files by itself."""
    temporary = {Path(each).resolve() for each in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", "/run")}
    return any(Path(folder).resolve().is_relative_to(each) for each in temporary)


def _tls(around: Circumstances) -> Finding:
    found = connections(around.table, around.settings)
    if not found:
        return Finding(True, "its loads use no network")
    bad = [f"{each.what}: {each.why}" for each in found if not each.encrypted]
    good = f"{', '.join(each.what for each in found)}: encrypted, or on this machine"
    return Finding(not bad, "; ".join(bad) or good)


def _at_rest(around: Circumstances) -> Finding:
    found = stores(around.table, around.settings)
    bad = [f"{each.what}: {each.why}" for each in found if not each.encrypted]
    return Finding(not bad, "; ".join(bad or [f"{each.what}: {each.why}" for each in found]))


def _source_retention(around: Circumstances) -> Finding:
    if not around.table.source.expires_rows:
        return Finding(True, "the source removes nothing by itself")
    found = around.own.checks.get("headroom")
    if found is None:
        return Finding(False, "the check headroom was never evaluated")
    return Finding(found.passed, found.description)


def _log_retention(around: Circumstances) -> Finding:
    kept, needed = around.table.log_retention, max(around.table.slo.period, around.table.due_after)
    if kept is None:
        return Finding(True, "the log keeps everything")
    return Finding(kept >= needed, f"the log keeps {spoken(kept)}, backfills reach back {spoken(needed)}")


def _personal(around: Circumstances) -> Finding:
    contract, retention = around.table.contract, around.table.quarantine_retention
    found = [f"protected: {', '.join(contract.protections)}"] if contract.protections else []
    if meant := [f"{name} ({why})" for name, why in contract.in_clear.items() if why]:
        found.append(f"in clear on purpose: {', '.join(meant)}")
    if columns := [name for name, why in contract.in_clear.items() if not why]:
        found.insert(0, f"in clear: {', '.join(columns)}")
    if contract.in_clear:
        kept = "records" if contract.protections else "whole records, and the log fields that are not declared,"
        long = f"for {spoken(retention)}" if retention is not None else "for ever"
        found.append(f"rejected rows keep their {kept} in clear {long}, too")
    return Finding(not columns, "; ".join(found) or "no column is marked personal")


def _sensor(around: Circumstances) -> Finding:
    watch = around.own.watch
    trouble = f"; its last tick failed: {watch.trouble}" if watch.trouble else ""
    if not watch.running:
        return Finding(False, "it is off, or no daemon has seen it")
    if watch.success is None:
        return Finding(False, f"it has not succeeded yet{trouble}")
    quiet = around.at - watch.success
    allowed = max(ALIVE, 2 * around.table.interval)
    return Finding(quiet <= allowed, f"it succeeded {spoken(quiet)} ago{trouble}")


def _daemon(around: Circumstances) -> Finding:
    gone = [
        kind
        for kind in DAEMONS
        if kind not in around.facts.heartbeats or around.at - around.facts.heartbeats[kind] > ALIVE
    ]
    return Finding(not gone, f"no sign of life: {', '.join(gone)}" if gone else "all gave a sign of life")


def _runbooks(around: Circumstances) -> Finding:
    page = around.docs / "runbooks.md"
    if not page.is_file():
        return Finding(False, "there is no page of runbooks")
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    specs = [spec for checks in checks_for(around.table) for spec in checks.check_specs]
    linked = {spec.name: re.findall(r"incload docs runbooks ([\w-]+)", spec.description or "") for spec in specs}
    without = sorted(name for name, links in linked.items() if not links or not anchors.issuperset(links))
    return Finding(not without, f"none for {', '.join(without)}" if without else f"for all {len(linked)} checks")


def _undo(around: Circumstances) -> Finding:
    chain = chain_of(Lake.of(around.settings))
    tried = [entry.at for entry in chosen(chain, around.table.name, around.at - LATELY) if entry.action == "undo"]
    last = max((at for at in tried if at is not None), default=None)
    return Finding(last is not None, f"a load was undone on {last:%Y-%m-%d}" if last else "not tried in the last year")


REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        name="freshness target",
        evaluate=_freshness,
        remedy="declare freshness=Freshness(within=…) or slo=Slo(freshness=…)",
    ),
    Requirement(name="owner", evaluate=_owner, remedy='declare owners=["team:…"] or an e-mail address'),
    Requirement(name="criticality", evaluate=_criticality, remedy="declare criticality='high', 'normal' or 'low'"),
    Requirement(
        name="alerts loaded",
        evaluate=_alerts,
        remedy="run incload monitoring render DIR, have Prometheus load DIR/rules.yaml, set INCLOAD_PROMETHEUS_URL or "
        "INCLOAD_MONITORING=DIR",
    ),
    Requirement(
        name="reconciliation scheduled",
        evaluate=_reconciliation_scheduled,
        remedy="start dagster-daemon, and turn the schedule on in the UI under Automation",
    ),
    Requirement(
        name="reconciliation green",
        evaluate=_reconciliation_green,
        remedy="run incload check TABLE, and repair what it finds",
    ),
    Requirement(
        name="Dagster's storage durable",
        evaluate=_durable,
        remedy="enable the section storage in dagster.yaml (Postgres) and back it up, or run incload backup nightly",
    ),
    Requirement(
        name="table and log readable",
        evaluate=_readable,
        remedy="follow the remedy that it names, and see incload docs runbooks a-table-cannot-be-read",
    ),
    Requirement(
        name="lake durable",
        evaluate=_lake,
        remedy="set INCLOAD_LAKE to s3://… or to a folder that nothing empties",
    ),
    Requirement(
        name="encrypted in transit",
        evaluate=_tls,
        remedy="https:// in AWS_ENDPOINT_URL, ?sslmode=verify-full in INCLOAD_DATABASE_<NAME>_URL, security.protocol "
        "SSL or SASL_SSL in INCLOAD_KAFKA_<NAME>_OPTIONS, use_ssl=true in INCLOAD_SPARK",
    ),
    Requirement(
        name="encrypted at rest",
        evaluate=_at_rest,
        remedy="set the bucket's default encryption, or encrypt the disk and say so in INCLOAD_ENCRYPTION_AT_REST; see "
        "incload docs production encryption-at-rest",
    ),
    Requirement(
        name="source retention",
        evaluate=_source_retention,
        remedy="load what waits, oldest first; have the source keep more",
    ),
    Requirement(
        name="log retention",
        evaluate=_log_retention,
        remedy="declare a longer log_retention, or a shorter slo.period",
    ),
    Requirement(
        name="personal columns protected",
        evaluate=_personal,
        remedy="protect them in the contract, for example with Hashed, or say why they stay in clear: "
        "InClear(because=…); see incload docs protection",
    ),
    Requirement(name="sensor running", evaluate=_sensor, remedy="turn it on in the UI under Automation; see its ticks"),
    Requirement(name="daemon alive", evaluate=_daemon, remedy="start dagster-daemon run on this instance"),
    Requirement(name="runbooks linked", evaluate=_runbooks, remedy="write the runbook, and name it in the check"),
    Requirement(
        name="undo tested",
        evaluate=_undo,
        remedy="undo a load of a partition with incload undo, see the table, and load it again with incload release",
    ),
)
"""All requirements."""

"""Each requirement of production is met in one situation and not in another."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import boto3
import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, ScheduleInstigatorData

from incload_assets.assets import Debezium, Files, Hashed, InClear, Kafka, QueryByTime, Several
from incload_assets.declaration.slo import Slo
from incload_assets.declaration.table import Table
from incload_assets.monitoring.facts import Check, Facts, Watch
from incload_assets.monitoring.readiness.alert_rules import AlertRule
from incload_assets.monitoring.readiness.encryption import connections
from incload_assets.monitoring.readiness.readiness import REQUIREMENTS, Circumstances, Finding, Requirement, verdicts
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.observed import Observed
from incload_assets.sources.database.replication_slot import ReplicationSlot
from tests.servers.prometheus import running_prometheus
from tests.servers.s3 import S3Server
from tests.support.literal_loads import at, facts_of, table_with

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
NOW = at("02-01 12:00")
PLAIN = table_with(DAYS)
"""A table with a freshness, and nothing else of what is required."""


class Person(pa.DataFrameModel):
    """Somebody with a name."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True, metadata={"personal": True})
    seq: T.LongType = pa.Field(nullable=True)


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def found(instance: dg.DagsterInstance, tmp_path: Path) -> Callable[..., tuple[bool, str]]:
    """A function: the finding of a requirement, for a table and what is around it."""

    def evaluated(
        name: str,
        table: Table = PLAIN,
        *,
        heartbeats: Any = None,
        settings: Settings | None = None,
        schedules: tuple[str, ...] = (),
        **facts: Any,
    ) -> tuple[bool, str]:
        around = Circumstances(
            table=table,
            facts=Facts(at=NOW, tables={table.name: facts_of(table, [], **facts)}, heartbeats=heartbeats or {}),
            instance=instance,
            settings=settings or Settings(),
            schedules=schedules,
            docs=tmp_path,
        )
        [requirement] = [each for each in REQUIREMENTS if each.name == name]
        [verdict] = verdicts(around, [requirement])
        assert verdict.remedy == ("" if verdict.passed else requirement.remedy)
        return verdict.passed, verdict.says

    return evaluated


Found = Callable[..., tuple[bool, str]]


def test_a_freshness_target_is_that_of_the_table_or_of_its_objectives(found: Found) -> None:
    assert found("freshness target") == (True, "6 hours for 95 % of windows and changes")
    declared = table_with(DAYS, freshness=None, slo=Slo(freshness=timedelta(minutes=2)))
    assert found("freshness target", declared)[0]
    assert found("freshness target", table_with(DAYS, freshness=None)) == (False, "none; 5 minutes are assumed")


def test_an_owner_has_a_name_and_the_criticality_says_who_is_told(found: Found) -> None:
    assert found("owner") == (False, "none")
    assert found("owner", table_with(DAYS, owners=("team:guests",))) == (True, "team:guests")
    assert found("criticality", table_with(DAYS, criticality="high")) == (True, "high: somebody is paged")


RULES = {
    "groups": [
        {
            "name": "incload",
            "rules": [
                {"record": "incload:missed:5m", "expr": "rate(incload_missed_windows_total[5m])"},
                {
                    "alert": "TableLate",
                    "expr": 'incload_late{table=~"guests|orders"} > 0',
                    "labels": {"severity": "page"},
                },
                {"alert": "OrdersLate", "expr": 'incload_late{table="orders"} > 0'},
                {"alert": "SourceDown", "expr": "incload_source_up == 0"},
                {"alert": "Disk", "expr": "node_filesystem_avail_bytes < 1"},
            ],
        }
    ]
}


def test_alerts_are_those_of_the_rendered_folder_that_watch_the_table(found: Found, tmp_path: Path) -> None:
    settings = Settings(monitoring=tmp_path)
    assert found("alerts loaded") == (False, "neither INCLOAD_PROMETHEUS_URL nor INCLOAD_MONITORING is set")
    assert "rules.yaml cannot be read (FileNotFoundError)" in found("alerts loaded", settings=settings)[1]
    (tmp_path / "rules.yaml").write_text("a: [")
    assert "holds no rules of Prometheus" in found("alerts loaded", settings=settings)[1]
    (tmp_path / "rules.yaml").write_text(json.dumps(RULES))  # JSON is YAML
    assert found("alerts loaded", settings=settings) == (True, "2 of 4 rules that are rendered watch the table")
    other = table_with(DAYS, name="rooms")
    assert found("alerts loaded", other, settings=settings) == (
        False,
        "1 of 4 rules that are rendered watch the table",
    )


@pytest.mark.parametrize(
    ("expression", "labels", "covers"),
    [
        ("incload_late > 0", {}, True),
        ("incload_late > 0", {"table": "{{ $labels.table }}"}, True),
        ("incload_late > 0", {"table": "orders"}, False),
        ('incload_late{table="guests"} > 0', {}, True),
        ('incload_late{table!="guests"} > 0', {}, False),
        ('incload_late{table=~"gu.*"} > 0', {}, True),
        ('incload_late{table!~"gu.*|orders"} > 0', {}, False),
        ("up == 0", {}, False),
    ],
)
def test_a_rule_watches_a_table_by_its_expression_and_labels(
    expression: str, labels: dict[str, str], covers: bool
) -> None:
    assert AlertRule(name="A", expression=expression, labels=labels).covers("guests") is covers


@contextmanager
def serving(answer: bytes) -> Iterator[str]:
    """A server whose answer to everything is this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Prometheus that has loaded the rules."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "rules.yaml").write_text(json.dumps(RULES))
    with running_prometheus(folder, {"rule_files": ["rules.yaml"], "scrape_configs": []}) as server:
        yield server.url


def test_alerts_are_those_that_a_prometheus_has_loaded(found: Found, prometheus: str) -> None:
    settings = Settings(prometheus_url=f"{prometheus}/")
    assert found("alerts loaded", settings=settings) == (
        True,
        "2 of 4 rules that are loaded by Prometheus watch the table",
    )
    assert not found("alerts loaded", table_with(DAYS, name="rooms"), settings=settings)[0]


def test_what_answers_but_is_no_prometheus_is_told_apart_from_one_that_is_down(found: Found) -> None:
    with serving(b"<html>") as url:
        assert "what answers is no Prometheus" in found("alerts loaded", settings=Settings(prometheus_url=url))[1]
    down = found("alerts loaded", settings=Settings(prometheus_url=url))
    assert down[0] is False and "Prometheus does not answer (ConnectionRefusedError)" in down[1]


def schedule(instance: dg.DagsterInstance, name: str, status: InstigatorStatus) -> None:
    """Record a schedule's state as the daemon does."""
    location = RegisteredCodeLocationOrigin("here")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), name)
    data = ScheduleInstigatorData("40 4 * * *", NOW.timestamp())
    instance.add_instigator_state(InstigatorState(origin, InstigatorType.SCHEDULE, status, data))


def test_a_reconciliation_is_scheduled_if_one_of_its_schedules_runs(instance: dg.DagsterInstance, found: Found) -> None:
    name = "reconciliation scheduled"
    assert found(name) == (False, "no schedule has the check")
    assert found(name, schedules=("nightly",)) == (False, "nightly, not running")
    schedule(instance, "stopped", InstigatorStatus.STOPPED)
    schedule(instance, "nightly", InstigatorStatus.DECLARED_IN_CODE)
    assert found(name, schedules=("stopped",)) == (False, "stopped, not running")
    assert found(name, schedules=("stopped", "nightly")) == (True, "nightly")


def test_a_reconciliation_counts_if_it_compared_rows_lately(found: Found) -> None:
    name, good = (
        "reconciliation green",
        Check(passed=True, severity="WARN", at=NOW - timedelta(days=2), values={"windows_compared": 7}),
    )
    assert found(name) == (False, "it was never evaluated")
    assert found(name, checks={"reconciliation": good}) == (True, "passed at 2026-01-30 12:00 UTC")
    for worse, says in (
        (replace(good, passed=False), "failed at 2026-01-30 12:00 UTC"),
        (replace(good, at=NOW - timedelta(days=8)), "the last one was at 2026-01-24 12:00 UTC"),
        (replace(good, values={"windows_compared": 0}), "it compared positions only, and no rows"),
    ):
        assert found(name, checks={"reconciliation": worse}) == (False, says)


def test_sqlite_is_durable_if_it_was_backed_up_lately_and_is_not_in_a_temporary_folder(
    found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable, settings = "Dagster's storage durable", Settings(backups=tmp_path / "backups")
    assert found(durable, settings=settings) == (False, "SQLite in a temporary folder, without a backup")
    (tmp_path / "backups").mkdir()
    made = tmp_path / "backups" / f"dagster-{NOW:%Y%m%dT%H%M%SZ}.zip"
    made.touch()
    assert found(durable, settings=settings) == (
        False, f"SQLite in a temporary folder, last backup at {NOW:%Y-%m-%d %H:%M} UTC"
    )  # fmt: skip
    monkeypatch.setattr("incload_assets.monitoring.readiness.readiness._is_temporary", lambda _: False)
    assert found(durable, settings=settings) == (True, f"SQLite, last backup at {NOW:%Y-%m-%d %H:%M} UTC")
    made.rename(made.with_name(f"dagster-{NOW - timedelta(days=3):%Y%m%dT%H%M%SZ}.zip"))
    assert not found(durable, settings=settings)[0]
    around = Circumstances(
        table=PLAIN, facts=Facts(at=NOW, tables={}), instance=dg.DagsterInstance.ephemeral(), settings=Settings()
    )
    [verdict] = verdicts(around, [each for each in REQUIREMENTS if each.name == "Dagster's storage durable"])
    assert not verdict.passed


def test_a_lake_in_a_temporary_folder_is_not_durable(found: Found, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/tmp")
    assert found("lake durable", settings=Settings(lake="/tmp/lake")) == (False, "a temporary folder: /tmp/lake")
    assert not found("lake durable", settings=Settings(lake=str(link / "lake")))[0]
    assert found("lake durable", settings=Settings(lake="/srv/lake")) == (True, "a folder: /srv/lake")
    assert found("lake durable", settings=Settings(lake="s3://lake/prod")) == (True, "s3 object store")


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith(("INCLOAD_DATABASE_", "INCLOAD_KAFKA_", "AWS_"))]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_connections_are_found_inside_of_sources_and_checked_by_their_configuration(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    inner = Kafka("events", "orders", format="avro", registry="main")
    slot = ReplicationSlot("shop", "debezium")
    source = Several(
        {
            "changes": Debezium(inner, table="public.orders", keys=["id"], decimals="string", slot=slot),
            "full": QueryByTime("archive", "public.orders", "updated_at"),
            "files": Files("s3://bucket/{window:%Y-%m-%d}/*.json"),
        }
    )
    table, settings = replace(PLAIN, source=source), Settings(lake="/srv/lake", spark="sc://spark.example:15002")

    def told() -> dict[str, bool | None]:
        return {each.what: each.encrypted for each in connections(table, settings)}

    unknown = {"database archive": None, "database shop": None, "Kafka events": None, "schema registry main": None}
    assert told() == {"S3": True, **unknown, "Spark": False}
    for name, mode in {"SHOP": "?sslmode=require", "ARCHIVE": ""}.items():
        clean_environment.setenv(f"INCLOAD_DATABASE_{name}_URL", f"postgresql://db.example/shop{mode}")
        clean_environment.setenv(f"INCLOAD_DATABASE_{name}_USER", "reader")
    clean_environment.setenv("INCLOAD_KAFKA_EVENTS_SERVERS", "kafka.example:9093")
    clean_environment.setenv("AWS_ENDPOINT_URL", "http://s3.example")
    clean_environment.setenv("INCLOAD_REGISTRY_MAIN_URL", "http://registry.example")
    plain = {"database archive": False, "database shop": True, "Kafka events": False, "schema registry main": False}
    assert told() == {"S3": False, **plain, "Spark": False}
    clean_environment.setenv("INCLOAD_KAFKA_EVENTS_OPTIONS", '{"security.protocol": "sasl_ssl"}')
    clean_environment.setenv("INCLOAD_DATABASE_ARCHIVE_URL", "postgresql://127.0.0.1/shop")
    clean_environment.setenv("INCLOAD_REGISTRY_MAIN_URL", "https://registry.example")
    clean_environment.setenv("AWS_ENDPOINT_URL", "http://localhost:9000")
    settings = Settings(lake="/srv/lake", spark="sc://spark.example:15002/;use_ssl=true;token=secret")
    assert set(told().values()) == {True}, "what stays on this machine is not sent"


def test_what_is_wrong_with_a_connection_is_said_without_its_password(
    clean_environment: pytest.MonkeyPatch, found: Found
) -> None:
    table = replace(PLAIN, source=QueryByTime("shop", "public.orders", "updated_at"))
    clean_environment.setenv("INCLOAD_DATABASE_SHOP_URL", "postgresql://db.example/shop")
    clean_environment.setenv("INCLOAD_DATABASE_SHOP_USER", "reader")
    clean_environment.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", "hunter2")
    settings = Settings(lake="/srv/lake", landing="/srv/landing", spark="local")
    assert found("encrypted in transit", table, settings=settings) == (False, "database shop: sslmode is prefer")
    assert found("encrypted in transit", settings=settings) == (True, "its loads use no network")


def test_encryption_at_rest_is_what_a_bucket_says_and_what_somebody_says_of_a_disk(
    clean_environment: pytest.MonkeyPatch, found: Found, s3_server: S3Server
) -> None:
    for name, value in s3_server.environment().items():
        clean_environment.setenv(name, value)
    name, client = "encrypted at rest", boto3.client("s3", endpoint_url=s3_server.url)
    for bucket in ("kept", "arriving"):
        client.create_bucket(Bucket=bucket)
    table = replace(PLAIN, source=Files("{landing}/guests/{window:%Y-%m-%d}/*.json"))
    settings = Settings(lake="s3://kept/prod", landing="s3://arriving/prod")
    none = "the bucket has no default encryption"
    assert found(name, table, settings=settings) == (False, f"s3://arriving: {none}; s3://kept: {none}")
    clean_environment.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    assert found(name, table, settings=settings) == (False, f"s3://arriving: {none}"), "others write there"
    by_default: Any = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    client.put_bucket_encryption(Bucket="arriving", ServerSideEncryptionConfiguration=by_default)
    assert found(name, table, settings=settings) == (True, "s3://arriving: AES256; s3://kept: aws:kms")
    clean_environment.delenv("AWS_SERVER_SIDE_ENCRYPTION")
    unknown = found(name, table, settings=Settings(lake="s3://nowhere", landing="s3://arriving/prod"))
    assert unknown[0] is False and unknown[1].startswith("s3://nowhere: default encryption: there is no s3://nowhere")
    disk = Settings(lake="/srv/lake", landing="/srv/landing")
    assert found(name, table, settings=disk) == (False, "disks: whether they are encrypted cannot be seen from here")
    said = disk.model_copy(update={"encryption_at_rest": "LUKS"})
    assert found(name, table, settings=said) == (True, "disks: said to be LUKS")


def test_a_source_that_removes_data_needs_headroom(found: Found) -> None:
    assert found("source retention") == (True, "the source removes nothing by itself")
    table = replace(PLAIN, source=Kafka("shop", "orders"))
    assert found("source retention", table) == (False, "the check headroom was never evaluated")
    check = Check(passed=False, severity="WARN", at=NOW, description="Three windows not loaded.")
    assert found("source retention", table, checks={"headroom": check}) == (False, "Three windows not loaded.")
    assert found("source retention", table, checks={"headroom": replace(check, passed=True)})[0]


def test_a_log_is_kept_for_as_long_as_backfills_reach_back(found: Found) -> None:
    assert found("log retention") == (True, "the log keeps everything")
    assert found("log retention", table_with(DAYS, log_retention=timedelta(days=90)))[0]
    assert found("log retention", table_with(DAYS, log_retention=timedelta(days=7))) == (
        False, "the log keeps 7 days, backfills reach back 30 days"
    )  # fmt: skip


class Protected(Person):
    """Somebody with a number in place of a name, and an address that a courier needs."""

    name: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed(key="crm")})
    address: T.StringType = pa.Field(nullable=True, metadata={"personal": InClear(because="the courier needs it")})


def test_a_personal_column_in_clear_is_named_with_what_else_is_kept_in_clear_unless_somebody_says_why(
    found: Found,
) -> None:
    name, kept = "personal columns protected", "rejected rows keep their"
    assert found(name) == (True, "no column is marked personal")
    whole = "whole records, and the log fields that are not declared, in clear for"
    assert found(name, table_with(DAYS, contract=Person)) == (False, f"in clear: name; {kept} {whole} 90 days, too")
    forever = replace(table_with(DAYS, contract=Person), quarantine_retention=None)
    assert found(name, forever) == (False, f"in clear: name; {kept} {whole} ever, too")
    meant = "protected: name; in clear on purpose: address (the courier needs it)"
    assert found(name, table_with(DAYS, contract=Protected)) == (
        True, f"{meant}; {kept} records in clear for 90 days, too"
    )  # fmt: skip
    assert found(name, table_with(DAYS, contract=OnlyHashed)) == (True, "protected: name")
    with pytest.raises(ValueError, match="say why the values stay in clear"):
        InClear(because=" ")


class OnlyHashed(Person):
    """Somebody with a number in place of a name."""

    name: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed(key="crm")})


def test_a_sensor_that_ticks_and_daemons_that_live(found: Found) -> None:
    alive, seen = NOW - timedelta(seconds=20), Observed(at=NOW.isoformat())
    assert found("sensor running", watch=Watch(tick=alive, success=alive, seen=seen)) == (
        True,
        "it succeeded 20 seconds ago",
    )
    assert not found("sensor running", watch=Watch(running=False, success=alive))[0]
    assert not found("sensor running", watch=Watch(tick=alive))[0]
    assert not found("sensor running", watch=Watch(success=NOW - timedelta(hours=1)))[0]
    beats = dict.fromkeys(("SENSOR", "SCHEDULER", "QUEUED_RUN_COORDINATOR"), alive)
    assert found("daemon alive", heartbeats=beats) == (True, "all gave a sign of life")
    assert found("daemon alive", heartbeats={**beats, "SENSOR": NOW - timedelta(hours=1)}) == (
        False, "no sign of life: SENSOR"
    )  # fmt: skip


def test_runbooks_are_linked_if_each_check_points_to_a_section_that_is_there(found: Found, tmp_path: Path) -> None:
    assert found("runbooks linked") == (False, "there is no page of runbooks")
    (tmp_path / "runbooks.md").write_text("# Runbooks\n\n## Nothing yet\n")
    passed, says = found("runbooks linked")
    assert not passed and "freshness" in says and "reconciliation" in says


def test_an_undo_is_tested_if_one_of_the_table_is_in_the_audit(
    found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(lake=str(tmp_path / "lake"))
    assert found("undo tested", settings=settings) == (False, "not tried in the last year")
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: NOW)
    record(Lake.of(settings), AuditEntry(action="undo", table="another"))
    assert not found("undo tested", settings=settings)[0]
    record(Lake.of(settings), AuditEntry(action="undo", table=PLAIN.name))
    assert found("undo tested", settings=settings) == (True, f"a load was undone on {NOW:%Y-%m-%d}")


def test_a_requirement_that_cannot_be_evaluated_is_not_met_and_says_why(instance: dg.DagsterInstance) -> None:
    def fails(_: Circumstances) -> Finding:
        raise IncrementalLoadError("the lake is gone", rule="it is there", remedy="bring it back")

    around = Circumstances(table=PLAIN, facts=Facts(at=NOW, tables={}), instance=instance, settings=Settings())
    [verdict] = verdicts(around, [Requirement(name="lake", evaluate=fails, remedy="search")])
    assert (verdict.passed, verdict.remedy) == (False, "search") and "the lake is gone" in verdict.says

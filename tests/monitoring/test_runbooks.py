"""The runbooks: what they name is there, and their commands do what they say."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from incload_assets.checks import LIGHT_CHECKS, TABLE_CHECKS, checks_for, reconciliation
from incload_assets.checks.kinds import with_runbook
from incload_assets.cli.commands.docs import sections
from incload_assets.code_location import incremental_definitions
from incload_assets.monitoring.metrics import METRICS
from incload_assets.monitoring.prometheus.alerts import ALERTS, Alert
from incload_assets.monitoring.prometheus.exporter import WHOLE
from incload_assets.platform import errors
from incload_assets.platform.settings import Settings
from tests.support.documents import DOCS, Page
from tests.support.guest_table import house
from tests.support.project_copy import Clone, readme_files
from tests.support.workshop import items_asset
from tests.test_documentation import given

PAGE = Page(DOCS / "runbooks.md")
SECTIONS = sections(PAGE.text)
FAILURES = (
    "missed-updates", "duplicate-writes", "schema-break", "late-arrivals", "checkpoint-loss", "partial-commit",
    "clock-skew", "lag", "restart", "resync", "backfill", "rollback", "erasure", "full-disk", "spark-gone",
    "postgres-gone", "source-down", "skew", "a-table-cannot-be-read",
)  # fmt: skip
PARTS = ("Symptoms", "How to be sure", "Remedy", "How to know it is over", "What it costs", "Whom to call")
CHECKS = {**LIGHT_CHECKS, **TABLE_CHECKS}
HEADER = "payment_id,payer,amount,updated_at,state\n"


def functions() -> dict[str, Any]:
    """The functions of the page's Python."""
    names = given()
    for block in PAGE.blocks:
        if block.language == "python":
            exec(compile(block.content, "runbooks", "exec"), names)
    return names


def commands(program: str) -> list[list[str]]:
    """The commands of the page's blocks that begin with a program, each once."""
    return [
        list(words)
        for words in dict.fromkeys(tuple(words) for block in PAGE.blocks for words in block.commands)
        if words[0] == program
    ]


def test_each_failure_has_a_section_with_the_same_parts() -> None:
    assert tuple(SECTIONS) == (*FAILURES, "checklists")
    for name in FAILURES:
        assert tuple(re.findall(r"(?m)^\*\*([\w ]+?)\.?\*\*", SECTIONS[name])) == PARTS, name


@pytest.mark.parametrize("name", [*CHECKS, reconciliation.NAME])
def test_each_check_names_a_section(name: str) -> None:
    runbook = CHECKS[name].runbook if name in CHECKS else reconciliation.RUNBOOK
    assert runbook in FAILURES
    assert f"`{name}`" in SECTIONS[runbook], "the section names the check"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_leads_to_a_section_that_names_it(alert: Alert) -> None:
    assert f"`{alert.name}`" in SECTIONS[alert.runbook]


def test_the_description_of_each_check_in_the_ui_ends_with_its_runbook(tmp_path: Path) -> None:
    with house(tmp_path, Settings(spark="sc://127.0.0.1:9")) as h:
        specs = [spec for checks in checks_for(h.table) for spec in checks.check_specs]
    assert specs
    for spec in specs:
        assert re.search(r"Runbook: `incload docs runbooks [a-z-]+`\.$", spec.description or ""), spec.name
    assert with_runbook("A check of one's own.", "") == "A check of one's own."


def test_metrics_errors_and_checks_that_the_page_names_are_there() -> None:
    metrics = {metric.name for metric in METRICS} | WHOLE.keys()
    assert {code for code in PAGE.code if re.fullmatch(r"incload_[a-z_]+", code)} - metrics == set()
    named = {code for code in PAGE.code if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", code)}
    others = {"QueryByTime", "Several"} | {alert.name for alert in ALERTS}
    assert {name for name in named - others if not hasattr(errors, name)} == set()


def test_a_row_written_twice_is_found_in_the_history_and_removed(tmp_path: Path) -> None:
    uri, do = str(tmp_path / "orders"), functions()
    write_deltalake(uri, pa.table({"order_id": [1, 2]}))
    write_deltalake(uri, pa.table({"order_id": [1]}), mode="append")
    assert [line.split()[1] for line in do["history"](uri)] == ["WRITE", "WRITE"]
    assert do["remove"](uri, "order_id IN (1)") == 2
    assert DeltaTable(uri).to_pyarrow_table()["order_id"].to_pylist() == [2]


def test_the_reconciliation_of_all_partitions_is_configured_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path))
    defs = incremental_definitions([items_asset(name="orders")], Settings())
    [config] = [json.loads(words[words.index("--config-json") + 1]) for words in commands("dagster")
                if "check_reconciliation" in words and "--config-json" in words]  # fmt: skip
    assert dg.validate_run_config(defs.resolve_job_def("check_reconciliation"), config)
    jobs = {words[words.index("-j") + 1] for words in commands("dagster") if "-j" in words}
    sensors = {words[-1] for words in commands("dagster") if words[1:2] == ["sensor"] and words[2] != "list"}
    assert jobs <= {job.name for job in defs.resolve_all_job_defs()}
    assert sensors == {"watch_sources"} <= {sensor.name for sensor in defs.sensors or ()}


def of_payments(words: list[str]) -> list[str]:
    """A command of the page, about the README's table."""
    return [word.replace("orders", "payments").replace("order_id=1", "payment_id=1") for word in words]


def project(root: Path, spark: str) -> Clone:
    clone = Clone.of(root, spark)
    clone.write("my_lake/tables/payments.py", readme_files()["my_lake/tables/payments.py"])
    for day in range(1, 6):
        row = f"{day},Ada,10.00,2026-01-0{day}T09:00:00Z,booked\n"
        clone.write(f".incload/landing/payments/2026-01-0{day}.csv", HEADER + row)
    return clone


def test_commands_that_look_work_without_spark(tmp_path: Path) -> None:
    clone = project(tmp_path, "sc://127.0.0.1:9")
    looking = [
        ["incload", "status"],
        ["incload", "status", "orders"],
        ["incload", "trace", "orders", "order_id=1"],
        ["incload", "spark", "status"],
    ]
    assert all(words in commands("incload") for words in looking)
    for words in looking:
        done = clone.incload(*of_payments(words)[1:], INCLOAD_SAMPLES="false")
        assert (done.returncode, done.stderr) == (0, ""), (shlex.join(words), done.stderr)
    assert (
        "nothing was ever loaded" in clone.incload("trace", "payments", "payment_id=1", INCLOAD_SAMPLES="false").stdout
    )


@pytest.mark.slow
def test_remedies_by_loads_put_the_table_right(tmp_path: Path, spark_url: str) -> None:
    clone = project(tmp_path, spark_url)
    loads = [words for words in commands("incload") if words[1] == "load"]
    assert len(loads) >= 4
    for words in loads:
        sure = ["--yes"] if "--rewrite-compacted" in words else []
        done = clone.incload(*of_payments(words)[1:], *sure, INCLOAD_SAMPLES="false")
        assert done.returncode == 0, (shlex.join(words), done.stdout, done.stderr)
    traced = clone.incload("trace", "payments", "payment_id=1", "--json", "--values", INCLOAD_SAMPLES="false")
    trace = json.loads(traced.stdout)
    assert (trace["rows"], trace["agrees"], trace["changes"][0]["fate"]) == (1, True, "in effect")
    assert trace["present"][0]["payer"] == "***" and trace["changes"][0]["file"].endswith("2026-01-01.csv")
    assert len(trace["changes"][0]["trace_id"]) == 32
    DeltaTable(str(clone.root / ".incload" / "lake" / "payments")).delete("payment_id = 5")
    lost = clone.incload("trace", "payments", "payment_id=5", INCLOAD_SAMPLES="false")
    assert lost.returncode == 1 and "incload load payments --partitions 2026-01-05" in lost.stdout
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", INCLOAD_SAMPLES="false").returncode == 0
    assert clone.incload("trace", "payments", "payment_id=5", INCLOAD_SAMPLES="false").returncode == 0
    clone.write(".incload/landing/payments/2026-01-05.csv", HEADER + "5,Ada,99.00,2026-01-05T10:00:00Z,booked\n")
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", INCLOAD_SAMPLES="false").returncode == 0
    taken_back = [words for words in commands("incload") if words[1] in ("undo", "release")]
    assert [words[1] for words in taken_back] == ["undo", "undo", "release"]
    for words in taken_back:
        done = clone.incload(*of_payments(words)[1:], INCLOAD_SAMPLES="false")
        assert done.returncode == 0, (shlex.join(words), done.stdout, done.stderr)

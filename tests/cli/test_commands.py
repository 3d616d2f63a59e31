"""The commands, each run as a person runs it, in a clone with one table."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.platform.local_servers.locks import is_held
from incload_assets.platform.samples.postgres import PostgresFiles
from incload_assets.progress.process import process_tags
from incload_assets.progress.run_tags import RANGE_END_TAG, RANGE_START_TAG, TABLE_TAG
from tests.servers.postgres import sample_database_ends
from tests.support.project_copy import Clone, readme_files, without_java, without_times

HEADER = "payment_id,payer,amount,updated_at,state\n"
PLAIN = {"INCLOAD_SAMPLES": "false"}
NO_S3 = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_REGION": "eu-central-1",
}
"""A port that nobody listens to."""
POOL = "state_payments"
START_POSTGRESQL = """
from incload_assets.platform.samples.database import find_or_start
from incload_assets.platform.settings import Settings
find_or_start("sample_shop", Settings())
"""


def payment(number: int, day: int) -> str:
    return f"{number},Ada,10.00,2026-01-{day:02d}T09:00:00Z,booked\n"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, spark_url: str) -> Clone:
    """The README's table with files for three days; all rows of the second break the contract."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), spark_url)
    clone.write("my_lake/tables/payments.py", readme_files()["my_lake/tables/payments.py"])
    clone.write(".incload/landing/payments/2026-01-01.csv", HEADER + payment(1, 1))
    clone.write(".incload/landing/payments/2026-01-02.csv", HEADER + "2,Ada,free,2026-01-02T09:00:00Z,booked\n")
    clone.write(".incload/landing/payments/2026-01-03.csv", HEADER + payment(3, 3) + payment(4, 3))
    return clone


@pytest.fixture
def instance(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(clone.root / ".dagster_home"))
    with dg.DagsterInstance.get() as instance:
        yield instance


@pytest.mark.slow
def test_a_partition_that_fails_does_not_stop_the_others(clone: Clone, instance: dg.DagsterInstance) -> None:
    done = clone.incload("load", "payments", "--partitions", "2026-01-01..2026-01-03", **PLAIN)

    lines = [without_times(line) for line in done.stdout.splitlines()]
    assert lines[0] == "✓ payments 2026-01-01  0.0 s  1 read, 1 inserted"
    assert lines[1].startswith("✗ payments 2026-01-02: 1 of 1 row")
    assert lines[2] == "✓ payments 2026-01-03  0.0 s  2 read, 2 inserted"
    assert done.stderr == "Error: payments: 1 of 3 partitions not loaded\n"
    assert done.returncode == 1
    [run] = instance.get_runs()
    bounds = [run.tags[tag] for tag in (RANGE_START_TAG, RANGE_END_TAG)]
    assert (run.tags[TABLE_TAG], *bounds, run.status.value) == ("payments", "2026-01-01", "2026-01-03", "FAILURE")
    status = clone.status("payments", **PLAIN)
    assert {name: status[name] for name in ("loaded", "failed", "causes", "rows")} == {
        "loaded": ["2026-01-01", "2026-01-03"],
        "failed": ["2026-01-02"],
        "causes": {"2026-01-02": "contract"},
        "rows": 3,
    }


BREAKS_A_CHECK = """

from dataclasses import replace

from incload_assets.checks import LIGHT_CHECKS


def _raises(look: object) -> None:
    raise KeyError("rows")


LIGHT_CHECKS["volume"] = replace(LIGHT_CHECKS["volume"], evaluate=_raises)
"""


@pytest.mark.slow
def test_a_run_that_fails_after_its_load_is_told_with_its_reason_and_is_no_success(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    module = readme_files()["my_lake/tables/payments.py"]
    clone.write("my_lake/tables/payments.py", module + BREAKS_A_CHECK)
    clone.write(".incload/landing/payments/2026-01-01.csv", HEADER + payment(1, 1))

    done = clone.incload("load", "payments", "-p", "2026-01-01", **PLAIN)
    checked = clone.incload("check", "payments", **PLAIN)

    why = "payments: check volume: KeyError: 'rows'."
    assert (done.returncode, checked.returncode) == (1, 1)
    assert done.stdout.startswith("✗ payments 2026-01-01: loaded, but its run failed: payments: not evaluated: volume")
    assert f"- {why}" in done.stdout and "✓" not in done.stdout
    assert done.stderr == "Error: payments: 1 of 1 partition loaded by runs that failed afterwards\n"
    assert clone.status("payments", **PLAIN)["loaded"] == ["2026-01-01"]
    assert checked.stderr.startswith(f"Error: payments: not all checks were evaluated: {why}")
    shown = {line.split()[0] for line in checked.stdout.splitlines()[1:] if line[:1].strip()}
    assert shown == {
        "clock",
        "gaps",
        "quarantine",
        "reconciliation",
        "rollback",
        "schema",
        "skew",
        "source_files",
        "uniqueness",
    }


@pytest.mark.slow
def test_all_missing_loads_what_is_missing_failed_or_changed_and_then_nothing(clone: Clone) -> None:
    clone.incload("load", "payments", "--partitions", "2026-01-01", **PLAIN)
    clone.write(".incload/landing/payments/2026-01-01.csv", HEADER + payment(1, 1) + payment(9, 1))
    clone.write(".incload/landing/payments/2026-01-02.csv", HEADER + payment(2, 2))
    clone.write(".incload/landing/payments/2026-01-03.csv", HEADER + payment(3, 3) + payment(4, 3))

    first = clone.incload("load", "payments", "--all-missing", **PLAIN)
    second = clone.incload("load", "payments", "--all-missing", **PLAIN)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert clone.status("payments", **PLAIN)["loaded"] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert clone.status("payments", **PLAIN)["rows"] == 5
    assert second.stdout == "payments: every partition is up to date with its source.\n"


@pytest.mark.slow
def test_outdated_loads_what_other_code_has_validated_and_names_what_is_held(tmp_path: Path, spark_url: str) -> None:
    own, name = Clone.of(tmp_path, spark_url), "my_lake/tables/payments.py"
    text = readme_files()[name]
    own.write(name, text)
    for number in (1, 2, 3):
        own.write(f".incload/landing/payments/2026-01-0{number}.csv", HEADER + payment(number, number))
    own.incload("load", "payments", "--all-missing", **PLAIN)
    nothing = own.incload("load", "payments", "--outdated", **PLAIN)
    own.incload("undo", "payments", "--partitions", "2026-01-02", **PLAIN)
    other = text.replace("return changes", 'return changes.withColumn("payer", F.lit("A"))')
    own.write(name, other.replace("import DataFrame", "import DataFrame\nfrom pyspark.sql import functions as F"))
    done = own.incload("load", "payments", "--outdated", **PLAIN)
    again = own.incload("load", "payments", "--outdated", **PLAIN)

    assert nothing.stdout == "payments: this code has validated every other partition.\n"
    assert done.returncode == 0, done.stderr
    assert (
        "payments: 1 partition not loaded again (held, compacted, or gone from the source): 2026-01-02" in done.stdout
    )
    assert "✓ payments 2026-01-01" in done.stdout and "✓ payments 2026-01-03" in done.stdout
    assert "this code has validated every other partition" in again.stdout


@pytest.mark.slow
def test_a_load_that_was_killed_holds_up_no_other_though_no_daemon_is_there(
    clone: Clone, instance: dg.DagsterInstance
) -> None:
    with started(clone, "load", "payments", "-p", "2026-01-01") as killed:
        while not instance.event_log_storage.get_concurrency_info(POOL).claimed_slots:
            assert killed.poll() is None
            time.sleep(0.1)
        killed.kill()
    [run_id] = instance.event_log_storage.get_concurrency_info(POOL).active_run_ids

    done = clone.incload("load", "payments", "-p", "2026-01-01", **PLAIN)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"Run {run_id[:8]} was killed; it is now marked as failed, and its slots are free.\n✓ payments "
    )
    run = instance.get_run_by_id(run_id)
    assert run is not None and run.status is dg.DagsterRunStatus.FAILURE


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_load_that_waits_for_its_table_says_who_has_it_and_ends_when_told_to(
    clone: Clone, instance: dg.DagsterInstance, how: signal.Signals
) -> None:
    @dg.job
    def holder() -> None: ...

    run = instance.create_run_for_job(holder, tags={"dagster/partition": "2026-01-02"})
    instance.add_run_tags(run.run_id, process_tags(run.run_id))
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "holder"), run.run_id)
    instance.event_log_storage.initialize_concurrency_limit_to_default(POOL)
    assert instance.event_log_storage.claim_concurrency_slot(POOL, run.run_id, "payments").is_claimed
    try:
        with started(clone, "load", "payments", "-p", "2026-01-01") as waits:
            assert waits.stdout is not None
            told = waits.stdout.readline()
            waits.send_signal(how)
            assert waits.wait(timeout=30) != 0
    finally:
        instance.report_run_failed(run)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    who = f"run {run.run_id[:8]} of 2026-01-02 in process {os.getpid()} on {socket.gethostname()}"
    assert told.startswith(f"payments 2026-01-01: waiting for pool {POOL}, which is held by {who} since ")
    [ended] = instance.get_runs(dg.RunsFilter(tags={TABLE_TAG: "payments"}), limit=1)
    assert ended.status is dg.DagsterRunStatus.FAILURE
    assert instance.event_log_storage.get_concurrency_info(POOL).pending_steps == []


@contextmanager
def started(clone: Clone, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """``incload …``, going on in the block, and killed at its end if need be."""
    with subprocess.Popen(
        clone.command(*arguments),
        cwd=clone.root,
        env=clone.environment(**PLAIN),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_compacted_partition_is_replaced_only_by_choice_and_a_log_that_cannot_be_compacted_says_why(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    module = readme_files()["my_lake/tables/payments.py"]
    clone.write("my_lake/tables/payments.py", module)
    clone.write(".incload/landing/payments/2026-01-01.csv", HEADER + payment(1, 1) + payment(1, 2))
    assert "payments declares no log_retention" in clone.incload("compact", "payments", **PLAIN).stderr
    retaining = module.replace("    contract=", "    log_retention=timedelta(days=1),\n    contract=")
    clone.write("my_lake/tables/payments.py", f"from datetime import timedelta\n{retaining}")
    assert clone.incload("load", "payments", "-p", "2026-01-01", **PLAIN).returncode == 0

    code, asked = clone.at_terminal("orders", "compact", "payments", **PLAIN)
    assert code == 1 and "what was typed is not the table's name" in asked
    assert "payments: 1 of 2 changes in 1 partition will be gone from the log; 1 of these partitions will from" in asked
    done = clone.incload("compact", "payments", "--yes", **PLAIN)
    assert done.stdout == (
        "payments: compacted 1 partition, 1 of them for the first time; removed 1 of 2 changes from the log; "
        "left alone: none\n"
    )
    clone.write(".incload/landing/payments/2026-01-01.csv", HEADER + payment(2, 1))
    refused = clone.incload("load", "payments", "-p", "2026-01-01", **PLAIN)
    assert "payments 2026-01-01: its log was compacted on" in refused.stdout
    replacing = ("load", "payments", "-p", "2026-01-01", "--rewrite-compacted")
    assert (
        "Remedy: see what it would do at a terminal; a script adds --yes" in clone.incload(*replacing, **PLAIN).stderr
    )
    code, replaced = clone.at_terminal("payments", *replacing, **PLAIN)
    assert (
        code == 0 and "payments: 1 compacted partition (2026-01-01): their 1 change in the log will be gone" in replaced
    )
    assert clone.status("payments", **PLAIN)["rows"] == 1
    nothing_listens = PLAIN | {"INCLOAD_SPARK": "sc://localhost:1/;token=secret"}
    without_spark = clone.incload("compact", "payments", "--yes", **nothing_listens)
    assert (without_spark.returncode, without_spark.stderr) == (
        1,
        "Error: payments: the Spark server sc://localhost:1/;token=*** does not answer. Remedy: start it, or check "
        "INCLOAD_SPARK\n",
    )


@pytest.mark.slow
def test_check_shows_every_check_and_what_it_found(clone: Clone) -> None:
    clone.incload("load", "payments", "--all-missing", **PLAIN)

    done = clone.incload("check", "payments", **PLAIN)

    shown = dict(line.split()[:2] for line in done.stdout.splitlines()[1:] if line[:1].strip())
    assert set(shown) == {
        "clock", "gaps", "quarantine", "reconciliation", "rollback", "schema", "skew", "source_files",
        "uniqueness", "volume",
    }  # fmt: skip
    assert (shown["uniqueness"], shown["reconciliation"]) == ("passed", "passed")


@pytest.mark.slow
def test_checks_that_could_not_be_evaluated_are_an_error_and_the_others_are_shown(clone: Clone, tmp_path: Path) -> None:
    done = clone.incload("check", "payments", INCLOAD_SPARK="local", **without_java(tmp_path), **PLAIN)

    shown = [line.split()[0] for line in done.stdout.splitlines()[1:] if line[:1].strip()]
    assert ("gaps" in shown, "uniqueness" in shown) == (True, False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: payments: not all checks were evaluated: Spark needs Java 17 or newer")


def test_status_tells_files_that_are_left_out_because_of_their_names(clone: Clone) -> None:
    path = clone.write(".incload/landing/payments/2026-01-01.csv.tmp", HEADER)
    try:
        shown = clone.incload("status", **PLAIN)
        listed = clone.status("payments", **PLAIN)
    finally:
        path.unlink()
    assert shown.stdout.splitlines()[-1] == (
        "payments: left out by the path, because of their names: 'payments/2026-01-01.csv.tmp'"
    )
    assert listed["left_out"] == ["payments/2026-01-01.csv.tmp"]


def test_a_table_whose_source_does_not_answer_does_not_hide_the_status_of_others(clone: Clone) -> None:
    module = clone.root / "my_lake" / "tables" / "receipts.py"
    payments = readme_files()["my_lake/tables/payments.py"]
    module.write_text(payments.replace("payments", "receipts").replace("{landing}", "s3://nobody/landing"))
    try:
        shown = clone.incload("status", **PLAIN, **NO_S3)
        listed = clone.incload("status", "--json", **PLAIN, **NO_S3)
    finally:
        module.unlink()
    assert (shown.returncode, listed.returncode) == (1, 1)
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["table", "payments", "receipts"]
    assert shown.stdout.split()[-2:] == ["?", "unknown"]
    assert shown.stderr.startswith("Error: receipts: ")
    assert [(one["table"], "error" in one) for one in json.loads(listed.stdout)] == [
        ("payments", False),
        ("receipts", True),
    ]


def test_a_table_that_does_not_exist_is_one_line_with_the_remedy(clone: Clone) -> None:
    done = clone.incload("load", "payment", "--partitions", "2026-01-01", **PLAIN)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "Error: there is no table 'payment'. Rule: the tables are payments. Remedy: write 'payments'.\n",
    )


def test_a_wrong_declaration_is_one_line_naming_table_field_and_remedy(clone: Clone) -> None:
    module = clone.root / "my_lake" / "tables" / "payments.py"
    right = module.read_text()
    try:
        module.write_text(right.replace('keys=["payment_id"]', 'keys=["id"]'))
        done = clone.incload("status", **PLAIN)
    finally:
        module.write_text(right)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: payments: changes.keys names 'id', which Payment does not have. Rule: keys, sequence and partition are "
        "columns of the contract (payment_id, payer, amount, updated_at). Remedy: add 'id' to Payment, or name one of "
        "its columns.\n"
    )


def test_a_wrong_setting_is_named_without_its_value(clone: Clone) -> None:
    done = clone.incload("status", INCLOAD_SPARK="spark://secret@host")
    assert (done.returncode, "INCLOAD_SPARK" in done.stderr, "secret" in done.stderr) == (1, True, False)


def test_settings_are_read_from_the_env_file_beside_the_workspace(clone: Clone) -> None:
    file = clone.root / ".env"
    before = file.read_text()
    try:
        file.write_text(before + "INCLOAD_SAMPLES=false\n")
        done = clone.incload("load", "orders", "--partitions", "2026-01-01")
    finally:
        file.write_text(before)
    assert "the tables are payments." in done.stderr


def test_commands_work_from_any_folder_of_the_project(clone: Clone) -> None:
    folder = clone.root / "my_lake" / "tables"
    done = subprocess.run(
        clone.command("spark", "status"),
        cwd=folder,
        env=clone.environment(PYTHONPATH=str(clone.root), PWD=str(folder)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "There is no Spark server; the first load starts one.\n"
    assert (clone.root / ".incload" / "spark").is_dir()
    assert list(folder.glob(".*")) == []


def test_dev_on_a_port_that_is_taken_is_one_line(clone: Clone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = clone.incload("dev", "--port", str(port), **PLAIN)
    assert (done.returncode, done.stderr) == (
        1,
        f"Error: port {port} of 127.0.0.1 is not available: Address already in use. Rule: the UI needs a port of its "
        f"own. Remedy: end the program that uses it, or choose another: incload dev --port {port + 1}.\n",
    )


def test_dev_without_java_is_one_line_that_says_how_to_get_one(clone: Clone, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = clone.incload("dev", "--port", str(port), INCLOAD_SPARK="local", **without_java(tmp_path), **PLAIN)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("Error: Spark needs Java 17 or newer; found: none")


def test_stop_ends_the_servers_that_were_started_on_demand(tmp_path: Path) -> None:
    clone = Clone.of(tmp_path, "local")
    home = clone.root / ".incload"
    with sample_database_ends(home):
        subprocess.run([sys.executable, "-c", START_POSTGRESQL], cwd=clone.root, env=clone.environment(), check=True)
        assert clone.incload("stop").stdout == "Ended: PostgreSQL.\n"
        assert not is_held(PostgresFiles.of(home).lock)
    assert clone.incload("stop").stdout == "No server was running.\n"


@pytest.mark.slow
def test_demo_trades_a_day_and_loads_the_tables_of_files_and_the_one_of_the_database(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of_repository(tmp_path, spark_url)

    with sample_database_ends(clone.root / ".incload"):
        done = clone.incload("demo", "--days", "1")

    assert done.returncode == 0, done.stderr
    loaded = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("✓")]
    assert loaded == ["articles", "assortment", "customers", "events", "inventory", "orders", "prices"]
    summary = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(tuple(loaded))]
    assert summary == loaded

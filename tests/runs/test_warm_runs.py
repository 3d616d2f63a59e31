"""Runs forked from a process that has loaded the code location: real processes, real signals, files that change."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import dagster as dg
import psutil
import pytest
from dagster._core.launcher import WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.workspace.load_target import PythonFileTarget

from incload_assets.platform.settings import Settings
from incload_assets.runs.warm_launcher import _asked
from incload_assets.runs.warm_servers import stop_warm_servers
from tests.runs.workplace import Workplace, beside, process_of, workplace_in

JOBS = """
import os, signal, time
import dagster as dg
from helper import VERSION

@dg.op
def quick(context: dg.OpExecutionContext):
    print("printed by", os.getpid())
    context.log.info(f"version {VERSION}, greeting {os.environ.get('GREETING')}")

@dg.op
def slow(context: dg.OpExecutionContext):
    while not os.path.exists("go"):
        time.sleep(0.05)
    context.log.info(f"slow version {VERSION}")

@dg.op
def dying():
    os.kill(os.getpid(), signal.SIGKILL)

@dg.op
def failing():
    raise ValueError("broken on purpose")

def job_of(op):
    @dg.job(name=op.name + "_job", executor_def=dg.in_process_executor)
    def made():
        op()
    return made

defs = dg.Definitions(jobs=[job_of(op) for op in (quick, slow, dying, failing)])
"""


def code(folder: Path) -> PythonFileTarget:
    """The code location of a folder, which is written there."""
    (folder / "jobs.py").write_text(JOBS)
    (folder / "helper.py").write_text("VERSION = 1\n")
    return PythonFileTarget(str(folder / "jobs.py"), None, str(folder), "jobs")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """What the tests share; also the process that runs are forked from, as long as nothing is changed."""
    folder = tmp_path_factory.mktemp("workplace")
    with _at_home(folder), workplace_in(folder, partial(beside, folder, code(folder))) as place:
        yield place


@contextmanager
def _at_home(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_HOME", str(folder / "home"))
        yield
        stop_warm_servers(Settings())


@pytest.fixture
def workplace(place: Workplace) -> Iterator[Workplace]:
    """The code location; it is put back as it was."""
    yield place
    for name in (".env", "go"):
        (place.folder / name).unlink(missing_ok=True)
    (place.folder / "helper.py").write_text("VERSION = 1\n")


def test_runs_are_forked_from_one_process_and_what_they_print_is_kept(workplace: Workplace) -> None:
    first, second = workplace.run("quick"), workplace.run("quick")
    assert first.status == second.status == dg.DagsterRunStatus.SUCCESS
    assert process_of(first) != process_of(second) != workplace.server().pid
    assert "slowly" not in workplace.messages(first.run_id) + workplace.messages(second.run_id)
    key = [second.run_id, "compute_logs", second.run_id]
    captured = [path.read_text() for path in (workplace.folder / "dagster" / "storage" / second.run_id).rglob("*.out")]
    assert captured == [f"printed by {process_of(second)}\n"], key


@pytest.mark.parametrize(
    "copied", [{}, {GRPC_INFO_TAG: '{"host": "localhost", "socket": "/nowhere"}'}], ids=["", "repeated"]
)
def test_a_run_that_is_cancelled_ends_as_cancelled_also_where_it_repeats_one_of_a_code_server(
    workplace: Workplace, copied: dict[str, str]
) -> None:
    run_id = workplace.launch("slow", copied)
    workplace.wait(lambda: "STEP_START" in str(workplace.instance.all_logs(run_id)))
    launcher = workplace.instance.run_launcher
    assert workplace.health(run_id) == WorkerStatus.RUNNING
    assert launcher.terminate(run_id)
    workplace.wait(lambda: workplace.of(run_id).is_finished)
    assert workplace.of(run_id).status == dg.DagsterRunStatus.CANCELED
    assert not launcher.terminate(run_id)


def test_a_run_whose_process_is_killed_fails_and_says_by_what(workplace: Workplace) -> None:
    run = workplace.run("dying")
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert f"process {process_of(run)} was terminated by signal 9 (SIGKILL)" in workplace.messages(run.run_id)
    health = workplace.instance.run_launcher.check_run_worker_health(run)
    assert health.status == WorkerStatus.FAILED and health.msg and "is gone" in health.msg


def test_a_run_that_fails_fails_with_its_own_error(workplace: Workplace) -> None:
    run = workplace.run("failing")
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert "signal" not in workplace.messages(run.run_id) and "exited with code" not in workplace.messages(run.run_id)


def test_the_next_run_has_the_code_and_the_dotenv_as_they_are_and_the_one_under_way_its_own(
    workplace: Workplace,
) -> None:
    under_way = workplace.launch("slow")
    assert "version 1, greeting None" in workplace.messages(workplace.run("quick").run_id)
    (workplace.folder / "helper.py").write_text("VERSION = 2\n")
    assert "version 2, greeting None" in workplace.messages(workplace.run("quick").run_id)
    (workplace.folder / ".env").write_text("GREETING=hello\n")
    changed = workplace.messages(workplace.run("quick").run_id)
    assert "version 2, greeting hello" in changed and "slowly" not in changed
    assert workplace.health(under_way) == WorkerStatus.RUNNING
    (workplace.folder / "go").touch()
    workplace.wait(lambda: workplace.of(under_way).is_finished)
    assert "slow version 1" in workplace.messages(under_way)


def test_a_run_of_code_that_cannot_be_loaded_fails_with_the_import_error(workplace: Workplace) -> None:
    workplace.run("quick")
    (workplace.folder / "helper.py").write_text("raise RuntimeError('half a module')\n")
    run = workplace.run("quick")
    assert run.status == dg.DagsterRunStatus.FAILURE
    told = str(workplace.instance.all_logs(run.run_id))
    assert "half a module" in told and "This run starts slowly" in told


def test_a_killed_server_costs_one_slow_start_and_no_run(workplace: Workplace) -> None:
    under_way = workplace.launch("slow")
    running = workplace.server()
    os.kill(running.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(running.pid)] if psutil.pid_exists(running.pid) else [], timeout=10)
    assert workplace.run("quick").status == dg.DagsterRunStatus.SUCCESS
    assert workplace.health(under_way) == WorkerStatus.RUNNING
    assert workplace.instance.run_launcher.terminate(under_way)
    workplace.wait(lambda: workplace.of(under_way).is_finished)
    assert workplace.of(under_way).status == dg.DagsterRunStatus.CANCELED


def test_without_warm_runs_dagster_launches_as_it_does(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_WARM_RUNS", "false")
    first, second = workplace.run("quick"), workplace.run("quick")
    assert first.status == second.status == dg.DagsterRunStatus.SUCCESS
    assert "This run starts slowly: INCLOAD_WARM_RUNS is false." in workplace.messages(first.run_id)
    assert "slowly" not in workplace.messages(second.run_id)


def test_runs_of_a_code_server_that_the_web_server_started_are_forked_too(tmp_path: Path) -> None:
    with _at_home(tmp_path), workplace_in(tmp_path, lambda _: nullcontext(code(tmp_path))) as place:
        assert "slowly" not in place.messages(place.run("quick").run_id)
        assert place.server()


def test_the_process_that_runs_are_forked_from_does_not_grow_with_them(workplace: Workplace) -> None:
    workplace.run("quick")
    server = psutil.Process(workplace.server().pid)

    def size() -> tuple[int, int]:
        workplace.wait(lambda: server.children() == [])
        return server.num_fds(), server.num_threads()

    for _ in range(3):  # what the first ones open stays open
        _asked(workplace.server(), "no run")
    before, memory = size(), server.memory_full_info().uss
    for _ in range(30):  # each is one process that dies, and one that would report it
        _asked(workplace.server(), "no run")
    workplace.wait(lambda: size() == before)  # the connection of the last one may still be closing
    assert server.memory_full_info().uss - memory < 1_000_000  # bytes; of 200 runs it was 30,000

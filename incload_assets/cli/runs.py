"""Loads and checks as Dagster runs in this process, recorded in the instance like any other run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import dagster as dg

from incload_assets.assembly import load_job_name
from incload_assets.automation import fail_orphans
from incload_assets.cli.project import Project
from incload_assets.cli.waiting import waiting
from incload_assets.loading.declaration import Table
from incload_assets.loading.errors import IncrementalLoadError
from incload_assets.operations.log_compaction import JOB_NAME, STEP_NAME
from incload_assets.runs.process import process_tags

STARTED_BY = {"incload/started_by": "command line"}
COUNTS = ("rows_read", "inserted", "updated", "deleted", "stale", "duplicate", "quarantined")
_INTERRUPTED = "DagsterExecutionInterruptedError"


@dataclass(frozen=True)
class Outcome:
    """How the load of one partition ended.

    Args:
        table: Its name.
        partition: The key.
        run_id: The Dagster run.
        seconds: How long it took.
        counts: What became of the rows, by ``COUNTS``; empty where nothing was loaded.
        failure: Why it was not loaded; None if it was.
        complaints: The checks that did not pass on the table as it is now.
    """

    table: str
    partition: str
    run_id: str
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    failure: str | None = None
    complaints: tuple[str, ...] = ()


def free_from_killed_runs(project: Project, say: Callable[[str], None]) -> None:
    """Fail runs whose process is gone, so that nothing waits for them: no daemon need be there to do it.

    Args:
        project: Whose runs.
        say: Called with a line for each.
    """
    for run_id in fail_orphans(project.instance):
        say(f"Run {run_id[:8]} was killed: it is over, and what it had is free.")


def load_partition(
    project: Project,
    table: Table,
    partition: str,
    tags: Mapping[str, str] = {},
    *,
    verbose: bool,
    say: Callable[[str], None],
) -> Outcome:
    """Materialize one partition, with the checks that go with it; a load that fails is an outcome like another.

    The run waits for its turn in the table's pool, as a run from the UI does.

    Args:
        project: Where.
        table: The declaration.
        partition: The key.
        tags: More tags of the run.
        verbose: Show Dagster's log.
        say: Called with a line while the run waits, from another thread.

    Raises:
        KeyboardInterrupt: The run was interrupted, and is recorded as failed.
    """
    start = time.monotonic()
    job, run_id = project.definitions.resolve_job_def(load_job_name(table)), str(uuid4())
    with waiting(project.instance, job, run_id, lambda line: say(f"{table.name} {partition}: {line}")):
        result = job.execute_in_process(
            instance=project.instance,
            asset_selection=[table.key],
            partition_key=partition,
            run_id=run_id,
            tags={**STARTED_BY, **process_tags(run_id), **tags},
            run_config=_logging(verbose),
            raise_on_error=False,
        )
    seconds = time.monotonic() - start
    if _was_interrupted(result):
        raise KeyboardInterrupt
    done = [event.step_materialization_data.materialization for event in _of(result, "ASSET_MATERIALIZATION")]
    if not done:
        return Outcome(table.name, partition, result.run_id, seconds, failure=_why(result, partition))
    return Outcome(
        table.name,
        partition,
        result.run_id,
        seconds,
        counts={name: _int(done[-1].metadata.get(name)) for name in COUNTS},
        complaints=tuple(sorted(c.check_name for c in result.get_asset_check_evaluations() if not c.passed)),
    )


def run_checks(project: Project, table: Table, *, verbose: bool) -> tuple[list[dg.AssetCheckEvaluation], str | None]:
    """Evaluate every check of a table in one run.

    Returns:
        What was evaluated, and why the others were not; None if all of them were.
    """
    name = f"check_{'__'.join(table.key.path)}"
    job = dg.define_asset_job(name, selection=dg.AssetSelection.checks_for_assets(table.key), tags=STARTED_BY)
    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(jobs=[job]))
    result = definitions.resolve_job_def(name).execute_in_process(
        instance=project.instance, run_config=_logging(verbose), raise_on_error=False
    )
    return list(result.get_asset_check_evaluations()), None if result.success else _why(result, "")


def run_compaction(project: Project, table: Table, *, verbose: bool) -> dict[str, Any]:
    """Compact the log of a table; what was observed of it.

    Raises:
        IncrementalLoadError: It was not compacted.
    """
    result = project.definitions.resolve_job_def(JOB_NAME).execute_in_process(
        instance=project.instance,
        tags=STARTED_BY,
        run_config={"ops": {STEP_NAME: {"config": {"tables": [table.name]}}}, **_logging(verbose)},
        raise_on_error=False,
    )
    for event in _of(result, "ASSET_OBSERVATION"):
        metadata = event.asset_observation_data.asset_observation.metadata
        return {name: value.value for name, value in metadata.items()}
    raise IncrementalLoadError(_why(result, table.name))


def _logging(verbose: bool) -> dict[str, Any]:
    """Dagster's log always goes to the instance, where the UI shows it; to the terminal only if asked for."""
    return {"loggers": {"console": {"config": {"log_level": "INFO" if verbose else "CRITICAL"}}}}


def _of(result: dg.ExecuteInProcessResult, kind: str) -> list[dg.DagsterEvent]:
    return [event for event in result.all_events if event.event_type_value == kind]


def _int(value: Any) -> int:
    return int(value.value) if value is not None else 0


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether somebody pressed Ctrl-C, which Dagster takes for a failure of the step that it hit, or of the run."""
    errors = [event.step_failure_data.error for event in _of(result, "STEP_FAILURE")]
    errors += [event.job_failure_data.error for event in _of(result, "PIPELINE_FAILURE")]
    return any(error is not None and error.cls_name == _INTERRUPTED for error in errors)


def _why(result: dg.ExecuteInProcessResult, partition: str) -> str:
    """The error of a failed run, as the load told it."""
    for event in reversed(_of(result, "STEP_FAILURE")):
        data = event.step_failure_data
        told = data.user_failure_data
        if told and partition in told.metadata:
            return str(told.metadata[partition].value)
        if told and told.description:
            return told.description
        if data.error:
            innermost = data.error
            while innermost.cause:
                innermost = innermost.cause
            message = innermost.message.strip()
            name, _, rest = message.partition(": ")  # Python writes the class before what it tells
            return rest if rest and innermost.cls_name and name.endswith(innermost.cls_name) else message
    for event in reversed(_of(result, "PIPELINE_FAILURE")):
        if event.message:
            return event.message.strip()
    return f"run {result.run_id} ended without a materialization"

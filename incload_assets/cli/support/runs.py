"""Loads and checks as Dagster runs in this process, recorded in the instance like all other runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import dagster as dg

from incload_assets.automation import fail_orphans
from incload_assets.cli.support import screen
from incload_assets.cli.support.project import Project
from incload_assets.cli.support.reasons import reasons
from incload_assets.cli.support.waiting import waiting
from incload_assets.declaration.table import Table
from incload_assets.maintenance.compact_logs import COMPACT_LOGS
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.progress.process import process_tags
from incload_assets.progress.request import A_LOAD, Request, request_of

STARTED_BY = Request(started_by="command line").as_tags()
COUNTS = ("rows_read", "inserted", "updated", "deleted", "stale", "duplicate", "quarantined", "erased")
_INTERRUPTED = "DagsterExecutionInterruptedError"
_TOLD = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION}


@dataclass(frozen=True)
class Outcome:
    """The outcome of the load of one partition.

    Args:
        seconds: Duration of the load; for partitions that were loaded together, its share.
        counts: Numbers of rows by ``COUNTS``; empty if nothing was loaded.
        failure: Why the partition was not loaded, or why its run failed afterwards; None if neither.
        complaints: The checks that did not pass on the table after the load.
        held: Who holds the partition, since when and why; empty if it is not held.
    """

    table: str
    partition: str
    run_id: str
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    failure: str | None = None
    complaints: tuple[str, ...] = ()
    held: str = ""


def free_from_killed_runs(project: Project) -> None:
    """Fails runs whose process is gone, so that nothing waits for them; this works without a running daemon."""
    for run_id in fail_orphans(project.instance):
        screen.say(f"Run {run_id[:8]} was killed; it is now marked as failed, and its slots are free.")


def load_partitions(
    project: Project,
    table: Table,
    partitions: Sequence[str],
    request: Request = A_LOAD,
    *,
    say: Callable[[str], None],
    loaded: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Materializes adjacent partitions in one run, with its checks. Each partition succeeds or fails by itself.

    A failed load is reported as an outcome, not raised. Like a run from the UI, the run waits for its turn in the
    table's pool. The partitions are given oldest first, without gaps; the outcomes have their order.

    Args:
        say: Called with a line while the run waits, from another thread.
        loaded: Called with the key of a partition as soon as it is loaded; again if it is loaded again.

    Raises:
        KeyboardInterrupt: The run was interrupted, and is recorded as failed; partitions loaded until then stay loaded.
    """
    start, first, last = time.monotonic(), partitions[0], partitions[-1]
    # of this table alone, as each run describes its job, and the description of that of all tables takes seconds
    job = project.definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={table.key})
    run_id, tags = str(uuid4()), request_of(table, replace(request, first=first, last=last)).as_tags()
    name = first if first == last else f"{first}..{last}"

    def listen(entry: dg.EventLogEntry) -> None:
        if entry.dagster_event and entry.dagster_event.is_step_materialization:
            loaded(entry.dagster_event.partition or first)

    project.instance.add_event_listener(run_id, listen)
    try:
        with waiting(project.instance, job, run_id, lambda line: say(f"{table.name} {name}: {line}")):
            result = job.execute_in_process(
                instance=project.instance,
                asset_selection=[table.key],
                partition_key=first if first == last else None,
                run_id=run_id,
                tags={**STARTED_BY, **process_tags(run_id), **tags},
                run_config=_logging(project),
                raise_on_error=False,
            )
    except Exception as error:  # Dagster reports errors in a run, and raises errors that prevent its start
        reason, seconds = f"its run did not start: {type(error).__name__}: {error}", time.monotonic() - start
        return [Outcome(table.name, key, run_id, seconds, failure=reason) for key in partitions]
    if _was_interrupted(result):
        raise KeyboardInterrupt
    return _outcomes(project.instance, table, partitions, result, time.monotonic() - start)


def _outcomes(
    instance: dg.DagsterInstance,
    table: Table,
    partitions: Sequence[str],
    result: dg.ExecuteInProcessResult,
    seconds: float,
) -> list[Outcome]:
    """The outcome of each partition; a failed run that gives no partition as the reason failed after loading all."""
    # from the instance, because events before a step's failure are not in the result
    logged = instance.all_logs(result.run_id, of_type=_TOLD)
    events = [entry.dagster_event for entry in logged if entry.dagster_event]
    materialized = [e.step_materialization_data.materialization for e in events if e.is_step_materialization]
    done = {event.partition or partitions[0]: event.metadata for event in materialized}
    verdicts = [event.asset_check_evaluation_data for event in events if not event.is_step_materialization]
    complaints = tuple(sorted({verdict.check_name for verdict in verdicts if not verdict.passed}))
    blamed = {key: why for key in partitions if (why := _blamed(result, key)) is not None}
    outcomes = []
    for key in partitions:
        metadata = done.get(key)
        why = blamed.get(key) or (None if result.success or (blamed and metadata) else _why(result, key))
        if metadata is None:
            failure = why or f"run {result.run_id} ended without loading it"
            outcomes.append(Outcome(table.name, key, result.run_id, seconds, failure=failure))
            continue
        took = metadata.get("seconds") if len(partitions) > 1 else None
        outcomes.append(
            Outcome(
                table.name,
                key,
                result.run_id,
                float(took.value) if isinstance(took, dg.FloatMetadataValue) and took.value else seconds,
                counts={name: _int(metadata.get(name)) for name in COUNTS},
                failure=f"loaded, but its run failed: {why}" if why else None,
                complaints=complaints,
                held=str(metadata["held"].value) if "held" in metadata else "",
            )
        )
    return outcomes


def run_checks(project: Project, table: Table) -> tuple[list[dg.AssetCheckEvaluation], list[str]]:
    """Evaluates every check of a table in one run.

    Returns the evaluations, and one line for each reason why other checks were not evaluated.
    """
    name = f"check_{'__'.join(table.key.path)}"
    job = dg.define_asset_job(name, selection=dg.AssetSelection.checks_for_assets(table.key), tags=STARTED_BY)
    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(jobs=[job]))
    result = definitions.resolve_job_def(name).execute_in_process(
        instance=project.instance, run_config=_logging(project), raise_on_error=False
    )
    by_reason: dict[str, list[str]] = {}
    for failure in filter(None, (event.step_failure_data.user_failure_data for event in _of(result, "STEP_FAILURE"))):
        for check, reason in failure.metadata.items():
            by_reason.setdefault(str(reason.value), []).append(check)
    lines = [f"{reason} ({', '.join(sorted(checks))})" for reason, checks in by_reason.items()]
    return list(result.get_asset_check_evaluations()), lines if lines or result.success else [_why(result, "")]


def run_compaction(project: Project, table: Table) -> dict[str, Any]:
    """Compacts the log of a table; returns the metadata of its observation, or raises if the log was not compacted."""
    config = {"tables": [table.name], "confirm": table.name}
    result = project.definitions.resolve_job_def(COMPACT_LOGS.name).execute_in_process(
        instance=project.instance,
        tags=STARTED_BY,
        run_config={"ops": {COMPACT_LOGS.step_name: {"config": config}}, **_logging(project)},
        raise_on_error=False,
    )
    for event in _of(result, "ASSET_OBSERVATION"):
        metadata = event.asset_observation_data.asset_observation.metadata
        return {name: value.value for name, value in metadata.items()}
    raise IncrementalLoadError(_why(result, table.name))


def _logging(project: Project) -> dict[str, Any]:
    """The run configuration for logging: always to the instance for the UI, to the terminal only if ``verbose``."""
    return {"loggers": {"console": {"config": {"log_level": "INFO" if project.verbose else "CRITICAL"}}}}


def _of(result: dg.ExecuteInProcessResult, kind: str) -> list[dg.DagsterEvent]:
    return [event for event in result.all_events if event.event_type_value == kind]


def _int(value: Any) -> int:
    return int(value.value) if value is not None else 0


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """True if the run was interrupted by Ctrl-C, which Dagster records as a failure of the current step or the run."""
    errors = [event.step_failure_data.error for event in _of(result, "STEP_FAILURE")]
    errors += [event.job_failure_data.error for event in _of(result, "PIPELINE_FAILURE")]
    return any(error is not None and error.cls_name == _INTERRUPTED for error in errors)


def _blamed(result: dg.ExecuteInProcessResult, partition: str) -> str | None:
    """The reason that a failed run gives for one of its partitions, None if it gives none."""
    for event in reversed(_of(result, "STEP_FAILURE")):
        failure = event.step_failure_data.user_failure_data
        if failure and partition in failure.metadata:
            return str(failure.metadata[partition].value)
    return None


def _why(result: dg.ExecuteInProcessResult, partition: str) -> str:
    """The error of a failed run, from its steps."""
    found = "\n".join(reasons(result.all_events, partition))
    return found or f"run {result.run_id} ended {result.dagster_run.status.value.lower()}"

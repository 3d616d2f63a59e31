"""From a declaration to a Dagster asset whose materialization is an incremental load."""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
from dagster._core.storage.dagster_run import RunsFilter  # the public name has no filter on update time
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.loading.declaration import Changes, Freshness, Quarantine, RowFunction, Table, declare
from incload_assets.loading.errors import ContractViolation, IncrementalLoadError, SourceMissing
from incload_assets.loading.load import Checkpoint, LoadReport, load_window
from incload_assets.loading.materialization import MASK, metadata_of
from incload_assets.loading.process import mark_process
from incload_assets.loading.sources.base import Source
from incload_assets.loading.window import window_of
from incload_assets.loading.writes.base import Write
from incload_assets.loading.writes.merge import Merge
from resources.failures import masked, translate

FAILURE_TAG = "incload/failure"
DATA_VERSION_TAG = "dagster/data_version"
MAX_RETRIES = 3
FIRST_DELAY_SECONDS = 5.0
RUNS_LOOKED_AT = 200


def incremental_asset(
    *,
    partitions_def: dg.PartitionsDefinition,
    source: Source,
    contract: type,
    changes: Changes = Changes(),  # noqa: B008 - immutable
    write: Write = Merge(),  # noqa: B008 - immutable
    freshness: Freshness | None = None,
    quarantine: Quarantine = Quarantine(),  # noqa: B008 - immutable
    name: str | None = None,
    key_prefix: str | Sequence[str] | None = None,
    description: str | None = None,
    deps: Iterable[Any] | None = None,
    group_name: str | None = None,
    owners: Sequence[str] | None = None,
    tags: Mapping[str, str] | None = None,
    kinds: set[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    pool: str | None = None,
    code_version: str | None = None,
    automation_condition: dg.AutomationCondition[Any] | None = None,
    max_partitions_per_run: int = 10,
) -> Callable[[RowFunction], dg.AssetsDefinition]:
    """Declare a table that loads incrementally; decorates the row-wise function that shapes its changes.

    Args:
        partitions_def: Time windows; each is loaded, checked and checkpointed by itself.
        source: Where changes come from, for example ``Files``.
        contract: A ``pandera.pyspark.DataFrameModel`` with every column of the table.
        changes: Key, sequence and delete condition of a change.
        write: How changes are applied.
        freshness: How late the latest due partition may be; None: not checked.
        quarantine: How many rejected rows a load tolerates.
        name: Of the asset; default the function's.
        max_partitions_per_run: How many partitions of a backfill one run loads, one after the other.
        pool: Dagster pool of the loads; default one of the table's own for a table that any load may touch
            (``Merge()`` without ``partition_by``).
        code_version: Changes when rows have to be judged anew; default a hash of function and declaration.
        key_prefix: As in ``dagster.asset``, and so are the others:
        description: Default the function's docstring.
        deps: Assets upstream.
        group_name: Group in the UI.
        owners: People or teams.
        tags: For searching.
        kinds: Default spark and deltalake.
        metadata: Beside what the declaration itself shows.
        automation_condition: Beside the table's sensor.

    The function receives the contract's columns, typed, plus the fields named in ``delete_when``, and returns the
    contract's columns. It is row-wise and deterministic: no filter, join or aggregate.

    Raises:
        DeclarationError: When the module is imported, naming table, field, value, rule and remedy.

    Example:
        >>> @incremental_asset(
        ...     partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
        ...     source=Files("{landing}/orders/{window:%Y-%m-%d}/*.json"),
        ...     contract=Order,
        ...     changes=Changes(keys=["order_id"], sequence_by=["updated_at"], delete_when="op = 'd'"),
        ...     write=Merge(partition_by="order_date"),
        ... )
        ... def orders(changes):
        ...     return changes.withColumn("order_date", F.to_date("ordered_at"))
    """

    def decorate(function: RowFunction) -> dg.AssetsDefinition:
        prefix = [key_prefix] if isinstance(key_prefix, str) else list(key_prefix or ())
        key = dg.AssetKey([*prefix, name or function.__name__])
        table = declare(
            key=key,
            partitions_def=partitions_def,
            source=source,
            contract=contract,
            changes=changes,
            write=write,
            freshness=freshness,
            quarantine=quarantine,
            function=function,
            code_version=code_version,
        )

        @dg.asset(
            key=key,
            description=description or function.__doc__,
            partitions_def=partitions_def,
            deps=deps,
            group_name=group_name,
            owners=owners,
            tags=tags,
            kinds=kinds or {"spark", "deltalake"},
            metadata={**_shown(table), **(metadata or {})},
            pool=pool or (f"state_{'_'.join(key.path)}" if write.serialized else None),
            code_version=table.code_version,
            automation_condition=automation_condition,
            backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run),
            required_resource_keys={"spark", "lake"},
            output_required=False,  # a run over several partitions reports each by itself, as it is done
        )
        def load(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
            yield from _materialize(context, table)

        load.op.compute_fn.decorated_fn.incremental_table = table  # type: ignore[union-attr]
        return load

    return decorate


def table_of(asset: dg.AssetsDefinition) -> Table | None:
    """The declaration behind an asset, None for an asset of another kind."""
    compute = getattr(asset.node_def, "compute_fn", None)
    return getattr(getattr(compute, "decorated_fn", None), "incremental_table", None)


def _shown(table: Table) -> dict[str, Any]:
    columns = [
        dg.TableColumn(
            field.name,
            field.data_type.simpleString(),
            description="; ".join(filter(None, [field.description, "personal" if field.personal else None])) or None,
            constraints=dg.TableColumnConstraints(nullable=field.nullable),
        )
        for field in table.contract.fields
    ]
    return {
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "source": str(table.source),
        "keys": ", ".join(table.changes.keys),
        "sequence_by": ", ".join(table.changes.sequence_by),
        "write": type(table.write).__name__,
        "partition_by": table.write.partition_by or "none (state table)",
    }


def _materialize(context: dg.AssetExecutionContext, table: Table) -> Iterator[dg.MaterializeResult[Any]]:
    """Load the run's partitions, oldest first; each succeeds or fails by itself."""
    mark_process(context)
    keys = sorted(context.partition_keys, key=lambda key: window_of(table.partitions_def, key, table.name))
    failures: dict[str, BaseException] = {}
    try:
        with context.resources.spark.session(table.name) as spark:
            yield from _load_each(context, table, spark, keys, failures)
    except IncrementalLoadError as error:  # no session to be had
        failures |= dict.fromkeys(keys, error)
    if failures:
        _fail(context, table, failures, len(keys))


def _load_each(
    context: dg.AssetExecutionContext,
    table: Table,
    spark: SparkSession,
    keys: Sequence[str],
    failures: dict[str, BaseException],
) -> Iterator[dg.MaterializeResult[Any]]:
    lake, start = context.resources.lake, time.monotonic()
    for number, key in enumerate(keys, 1):
        if len(keys) > 1:
            context.log.info(f"{table.name} {key}: partition {number} of {len(keys)}{_time_left(start, number, keys)}")
        try:
            report = load_window(
                spark,
                table,
                lake,
                window_of(table.partitions_def, key, table.name),
                run_id=context.run.run_id,
                checkpoint=_checkpoint(context, table, key),
                say=context.log.info,
            )
            metadata = metadata_of(spark, table, lake, report)
        except Exception as error:
            failures[key] = _told(translate(error, f"{table.name} {key}"), table)
            context.log.error(f"{table.name} {key}: {failures[key]}")
            continue
        context.log.info(_summary(table, report))
        if len(keys) == 1:
            version = dg.DataVersion(report.control.fingerprint)
            yield dg.MaterializeResult(asset_key=table.key, metadata=metadata, data_version=version)
        else:
            tags = {DATA_VERSION_TAG: report.control.fingerprint}
            context.log_event(dg.AssetMaterialization(table.key, partition=key, metadata=metadata, tags=tags))


def _told(error: BaseException, table: Table) -> BaseException:
    """Spark's own errors in one line, values hidden where the table has personal columns: they quote what they read."""
    if not isinstance(error, PySparkException):
        return error
    line = masked(str(error).strip().splitlines()[0])
    if table.contract.personal:
        line = re.sub(r"'[^']*'|\"[^\"]*\"", f"'{MASK}'", line)
    return IncrementalLoadError(
        f"{table.name}: Spark could not do it: {line}", remedy="see the server's log for the rest"
    )


def _time_left(start: float, number: int, keys: Sequence[str]) -> str:
    """From the pace so far; nothing before the first partition is done."""
    done = number - 1
    left = (time.monotonic() - start) / done * (len(keys) - done) if done else 0
    return f", about {left:.0f} s left" if done else ""


def _summary(table: Table, report: LoadReport) -> str:
    e, m = report.evidence, report.merged
    return (
        f"{table.name} {report.window.key}: reconciled at version {report.table_version}; read {e.rows_read}, "
        f"inserted {m.inserted}, updated {m.updated}, deleted {m.deleted}, stale {e.stale}, duplicate {e.duplicate}, "
        f"quarantined {e.quarantined}"
    )


def _fail(context: dg.AssetExecutionContext, table: Table, failures: Mapping[str, BaseException], total: int) -> None:
    """Fail the step: again later if nothing but time is needed, for good if a person is."""
    transient = all(isinstance(e, IncrementalLoadError) and e.transient for e in failures.values())
    context.instance.add_run_tags(context.run.run_id, {FAILURE_TAG: _cause(failures.values())})
    if transient and context.retry_number < MAX_RETRIES:
        delay = FIRST_DELAY_SECONDS * 2**context.retry_number * random.uniform(0.5, 1.5)
        raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=delay) from next(iter(failures.values()))
    lines = "\n".join(f"- {key}: {error}" for key, error in failures.items())
    raise dg.Failure(
        description=f"{table.name}: {len(failures)} of {total} partitions not loaded\n{lines}",
        metadata={key: dg.MetadataValue.text(str(error)) for key, error in failures.items()},
        allow_retries=False,
    )


def _cause(errors: Iterable[BaseException]) -> str:
    """One word for automation: ``transient`` and ``missing`` are tried again, others wait for a person."""
    causes = set()
    for error in errors:
        if isinstance(error, SourceMissing):
            causes.add("missing")
        elif isinstance(error, ContractViolation):
            causes.add("contract")
        else:
            causes.add("transient" if isinstance(error, IncrementalLoadError) and error.transient else "error")
    return next(cause for cause in ("error", "contract", "missing", "transient") if cause in causes)


def _checkpoint(context: dg.AssetExecutionContext, table: Table, partition: str) -> Checkpoint:
    """A retry within a run follows an attempt that did not end well, whatever the runs say."""
    known = checkpoint_of(context.instance, table.key, partition, context.run.run_id)
    return replace(known, clean=known.clean and context.retry_number == 0)


def checkpoint_of(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, run_id: str) -> Checkpoint:
    """What the instance knows of a partition.

    Clean means that no other run of the asset that was alive since the run of its last materialization began has ended
    without success; where that is not certain it is not clean, which costs the load one more landing.
    """
    last = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    if not last or last[0].asset_materialization is None:
        return Checkpoint()
    fingerprint = (last[0].asset_materialization.tags or {}).get(DATA_VERSION_TAG)
    record = instance.get_run_record_by_id(last[0].run_id)
    if record is None:  # the run was deleted: nothing is known of what went on beside it
        return Checkpoint(fingerprint)
    unfinished = [status for status in dg.DagsterRunStatus if status is not dg.DagsterRunStatus.SUCCESS]
    alive = RunsFilter(updated_after=record.create_timestamp, statuses=unfinished)
    runs = instance.get_runs(alive, limit=RUNS_LOOKED_AT)
    others = [r for r in runs if r.run_id != run_id and (not r.asset_selection or key in r.asset_selection)]
    return Checkpoint(fingerprint, clean=not others and len(runs) < RUNS_LOOKED_AT)

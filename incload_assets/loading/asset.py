"""From a declaration to a Dagster asset whose materialization is an incremental load."""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import dagster as dg
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.loading.checkpoint import DATA_VERSION_TAG, FAILURE_TAG, Checkpoint, checkpoint_of, untried
from incload_assets.loading.compaction import REWRITE_COMPACTED_TAG
from incload_assets.loading.context import Context
from incload_assets.loading.declaration import INTERVAL, Changes, Freshness, Quarantine, RowFunction, Table, declare
from incload_assets.loading.errors import ContractViolation, IncrementalLoadError, SourceMissing
from incload_assets.loading.load import LoadReport, load_window
from incload_assets.loading.lost_files import lost_file
from incload_assets.loading.materialization import MASK, Metadata, metadata_of
from incload_assets.loading.process import mark_process
from incload_assets.loading.ranges import load_first_windows
from incload_assets.loading.sources.base import Source
from incload_assets.loading.window import Window, window_of
from incload_assets.loading.writes.base import Write
from incload_assets.loading.writes.merge import Merge
from resources.failures import masked, translate
from resources.lake import Lake

MAX_RETRIES = 3
FIRST_DELAY_SECONDS = 5.0


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
    max_partitions_per_run: int = 32,
    log_retention: timedelta | None = None,
    interval: timedelta = INTERVAL,
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
        max_partitions_per_run: How many partitions of a backfill one run loads; those never tried before
            together, others one after the other.
        log_retention: How long after its end a window can still be replaced. Of older windows the log keeps only what
            may still decide (of each key the newest change), and a window whose source has changed since is replaced
            only by a run that is told to; None: everything is kept.
        interval: How often the table's sensor looks at the source, and so how often the open window is loaded while it
            changes. ``incload status TABLE`` says so if loads cannot keep up.
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

    The function receives the contract's columns, typed, plus the fields that ``changes`` names in conditions, and
    returns the contract's columns. It is row-wise and deterministic: no filter, join or aggregate.

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
            log_retention=log_retention,
            interval=interval,
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
    columns += [
        dg.TableColumn(field.name, field.dataType.simpleString(), description=field.metadata.get("comment"))
        for field in table.schema.fields
        if field.name not in table.columns
    ]
    return {
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "source": str(table.source),
        "keys": ", ".join(table.changes.keys),
        "sequence_by": ", ".join(table.changes.sequence_by),
        "write": type(table.write).__name__,
        "partition_by": table.write.partition_by or "none (state table)",
        **({"buckets": table.write.buckets} if table.write.buckets else {}),
    }


def _materialize(context: dg.AssetExecutionContext, table: Table) -> Iterator[dg.MaterializeResult[Any]]:
    """Load the run's partitions, oldest first; each succeeds or fails by itself."""
    from incload_assets.checks.within_runs import check_after_range  # checks are made of what is in this package

    mark_process(context)
    keys = sorted(context.partition_keys, key=lambda key: window_of(table.partitions_def, key, table.name))
    failures: dict[str, BaseException] = {}
    try:
        with context.resources.spark.session(table.name) as spark:
            yield from _load_each(context, table, spark, keys, failures)
    except IncrementalLoadError as error:  # no session to be had
        failures |= dict.fromkeys(keys, error)
    if len(keys) > 1:
        check_after_range(context, table)
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
    windows = {key: window_of(table.partitions_def, key, table.name) for key in keys}
    left = dict(windows)
    try:
        for reports in _load_together(context, table, spark, list(windows.values())):
            metadata_by_key = metadata_of(spark, table, lake, reports)
            for report in reports:
                _log(context, table, report, metadata_by_key[report.window.key])
                del left[report.window.key]
    except Exception as error:  # whatever it was, each window that is left tells its own
        reason = _told(translate(error, table.name), table, lake)
        context.log.warning(f"{table.name}: not loaded together, so each window by itself: {reason}")
    for number, (key, window) in enumerate(left.items(), len(keys) - len(left) + 1):
        if len(keys) > 1:
            context.log.info(f"{table.name} {key}: partition {number} of {len(keys)}{_time_left(start, number, keys)}")
        try:
            report = load_window(
                spark,
                table,
                lake,
                window,
                run_id=context.run.run_id,
                checkpoint=_checkpoint(context, table, key, alone=len(keys) == 1),
                rewrite_compacted=REWRITE_COMPACTED_TAG in context.run.tags,
                say=context.log.info,
            )
            metadata = metadata_of(spark, table, lake, [report])[key]
        except Exception as error:
            failures[key] = _told(translate(error, f"{table.name} {key}"), table, lake)
            context.log.error(f"{table.name} {key}: {failures[key]}")
            continue
        if len(keys) > 1:
            _log(context, table, report, metadata)
        else:
            context.log.info(_summary(table, report))
            version = dg.DataVersion(report.control.fingerprint)
            yield dg.MaterializeResult(asset_key=table.key, metadata=metadata, data_version=version)


def _load_together(
    context: dg.AssetExecutionContext, table: Table, spark: SparkSession, windows: Sequence[Window]
) -> Iterator[list[LoadReport]]:
    """Those of the windows that nobody has tried before, as far as they can be loaded together."""
    if len(windows) < 2 or context.retry_number > 0 or not table.in_ranges:
        return

    def first_of(windows: Sequence[Window]) -> set[str]:
        return untried(context.instance, table.key, [window.key for window in windows], context.run.run_id)

    first = first_of(windows)
    if len(first) > 1:
        on, chosen = Context(spark, table, context.resources.lake.followed()), [w for w in windows if w.key in first]
        yield from load_first_windows(on, chosen, first_of, run_id=context.run.run_id, say=context.log.info)


def _log(context: dg.AssetExecutionContext, table: Table, report: LoadReport, metadata: Metadata) -> None:
    """Checkpoint one of several partitions at once: what comes after may fail."""
    context.log.info(_summary(table, report))
    tags = {DATA_VERSION_TAG: report.control.fingerprint}
    key = report.window.key
    context.log_event(dg.AssetMaterialization(table.key, partition=key, metadata=metadata, tags=tags))


def _told(error: BaseException, table: Table, lake: Lake) -> BaseException:
    """Spark's own errors in one line, values hidden where the table has personal columns: they quote what they read."""
    if not isinstance(error, PySparkException):
        return error
    if (lost := lost_file(error, table, lake)) is not None:
        return lost
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


def _checkpoint(context: dg.AssetExecutionContext, table: Table, partition: str, *, alone: bool) -> Checkpoint:
    """What is known of a partition; this run itself may have tried it before, as a retry or together with others."""
    known = checkpoint_of(context.instance, table.key, partition, context.run.run_id)
    again = context.retry_number > 0
    return replace(known, clean=known.clean and not again, untried=known.untried and alone and not again)

"""The decorator that declares a table and makes it a Dagster asset, whose materialization is an incremental load."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from incload_assets.assets.run import materialize
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.declare import declare
from incload_assets.declaration.eras import Era
from incload_assets.declaration.evolution import Evolution
from incload_assets.declaration.field_types import as_columns, as_in_dagster, check_arguments
from incload_assets.declaration.rules import key_of
from incload_assets.declaration.slo import Criticality, Slo
from incload_assets.declaration.source import Source
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import (
    INTERVAL,
    QUARANTINE_RETENTION,
    UNDO_RETENTION,
    Declaration,
    FailedReconciliation,
    Freshness,
    Quarantine,
    RowFunction,
    Table,
)
from incload_assets.declaration.write import Write
from incload_assets.load.catalog_entry import entry_name
from incload_assets.load.range_fences import WINDOWS_AT_ONCE
from incload_assets.platform.page_addresses import address_of
from incload_assets.platform.settings import current_settings
from incload_assets.progress.request import request_of
from incload_assets.progress.run_tags import PRIORITY_TAG, RUN_TAGS
from incload_assets.writes.merge import Merge


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
    max_partitions_per_run: int = WINDOWS_AT_ONCE,
    log_retention: timedelta | None = None,
    interval: timedelta = INTERVAL,
    slo: Slo = Slo(),  # noqa: B008 - immutable
    criticality: Criticality = "normal",
    undo_retention: timedelta = UNDO_RETENTION,
    on_failed_reconciliation: FailedReconciliation | None = None,
    evolution: Evolution = Evolution(),  # noqa: B008 - immutable
    subject: Subject | None = None,
    former_partitions: Sequence[Era] = (),
    quarantine_retention: timedelta | None = QUARANTINE_RETENTION,
) -> Callable[[RowFunction], dg.AssetsDefinition]:
    """Declares a table that loads incrementally; decorates the row-wise function that shapes its changes.

    Args:
        partitions_def: Time windows; each is loaded, checked and checkpointed by itself.
        source: The source of changes, for example ``Files``.
        contract: A ``pandera.pyspark.DataFrameModel`` with every column of the table.
        changes: Key, sequence and delete condition of a change.
        write: The write strategy, which determines how changes are applied.
        freshness: How late the latest due partition may be; None: not checked.
        quarantine: How many rejected rows a load tolerates.
        name: Name of the asset; default: the function's.
        max_partitions_per_run: Maximum number of partitions that one run loads, of a backfill or of partitions waiting
            at the source. Partitions never tried before are loaded together, others one after another.
        log_retention: How long after its end a window can still be replaced. Of older windows the log keeps only the
            changes that may still affect the table (the newest of each key), and a window whose source has changed
            since is replaced only by a run that is tagged for it. None: everything is kept.
        interval: How often the sensor checks the source, and so how often the open window is loaded while it
            changes. ``incload status TABLE`` reports if loads cannot keep up.
        slo: Service level objectives, see ``incload slo``.
        criticality: Who is notified of an alert: ``high`` pages a person, ``normal`` opens a ticket, ``low`` notifies
            no one. Also how much of the table the scheduled reconciliations compare.
        undo_retention: How long the content that a load replaces is kept, so that ``incload undo`` can bring it back;
            zero: it is not kept.
        on_failed_reconciliation: What is done with a window whose load ends with a table that differs from its log,
            beside the failure of the load. ``hold``: the window is held until its source changes or it is released.
            ``undo``: the load is undone first. None: nothing more.
        evolution: What a load does about a contract or a source with other columns than before.
        subject: The person that a row is about, so that one person's rows can be erased; None: no person.
        former_partitions: The partitions definitions that the table had before, oldest first, each with the instant
            until which it counted. Their windows stay as they are, and are not loaded again.
        quarantine_retention: How long rejected rows keep their records, so that they can be replayed. Afterwards the
            rows stay, with their reasons. None: for ever.
        pool: Dagster pool of the loads; default: a pool of its own for a table in which any load may touch any row
            (``Merge()`` without ``partition_by``).
        code_version: Version of the code; if it changes, rows are validated again. Default: a hash of function and
            declaration.
        key_prefix: As in ``dagster.asset``.
        description: As in ``dagster.asset``; default: the function's docstring.
        deps: Upstream assets.
        group_name: Group in the UI.
        owners: People or teams, who get the table's alerts.
        tags: Tags for searching.
        kinds: As in ``dagster.asset``; default: spark and deltalake.
        metadata: Metadata in addition to that of the declaration.
        automation_condition: A condition in addition to the sensor.

    The function receives the contract's columns, typed, plus the fields that conditions of ``changes`` use, and returns
    the contract's columns. It is row-wise and deterministic: no filter, join or aggregate.

    Raises:
        DeclarationError: When the module is imported; with table, field, value, rule and remedy.

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
        key = key_of(name, key_prefix, function)
        check_arguments(key.to_user_string(), pool=pool, max_partitions_per_run=max_partitions_per_run)
        table = declare(
            Declaration(
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
                slo=slo,
                criticality=criticality,
                owners=as_columns(owners) or (),
                undo_retention=undo_retention,
                on_failed_reconciliation=on_failed_reconciliation,
                evolution=evolution,
                subject=subject,
                former_partitions=tuple(former_partitions),
                quarantine_retention=quarantine_retention,
            )
        )

        with as_in_dagster(table.name):

            @dg.asset(
                key=key,
                description=description or function.__doc__,
                partitions_def=partitions_def,
                deps=as_columns(deps),
                group_name=group_name,
                owners=owners,
                tags=tags,
                kinds=set(as_columns(kinds)) if kinds else {"spark", "deltalake"},
                metadata={**_shown(table), **(metadata or {})},
                pool=pool or (f"state_{'_'.join(key.path)}" if write.serialized else None),
                code_version=table.code_version,
                automation_condition=automation_condition,
                backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run),
                required_resource_keys={"spark", "lake"},
                output_required=False,  # a run of several partitions reports each partition when it is done
            )
            def load(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
                yield from materialize(context, table)

        load.op.compute_fn.decorated_fn.incremental_table = table  # type: ignore[union-attr]
        return load

    return decorate


def table_of(asset: dg.AssetsDefinition) -> Table | None:
    """The declaration of an asset's table; None for an asset of another kind."""
    compute = getattr(asset.node_def, "compute_fn", None)
    return getattr(getattr(compute, "decorated_fn", None), "incremental_table", None)


def _shown(table: Table) -> dict[str, Any]:
    """The metadata of a table's asset; it is no part of the code's version."""
    settings = current_settings()
    dashboard, entry = settings.dashboard_url, entry_name(settings, table.key.path)
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
        **({"dagster/table_name": ".".join(entry)} if entry else {}),
        "source": str(table.source),
        "keys": ", ".join(table.changes.keys),
        "sequence_by": ", ".join(table.changes.sequence_by),
        "write": type(table.write).__name__,
        "partition_by": table.write.partition_by or "none (state table)",
        **({"buckets": table.write.buckets} if table.write.buckets else {}),
        RUN_TAGS: dg.MetadataValue.json(
            request_of(table).as_tags() | ({PRIORITY_TAG: "1"} if table.urgent else {}),
        ),
        **({"dashboard": dg.MetadataValue.url(address_of(table.name, dashboard))} if dashboard else {}),
    }

"""Recovery from the Dagster UI: a job for each command of the same name."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.load.faults import Faults, expect_readable
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import AuditEntry, actor_of, record
from incload_assets.progress.backup import back_up, is_sqlite
from incload_assets.progress.confirmed import is_by_hand
from incload_assets.progress.forms import Chosen, form_of
from incload_assets.progress.run_tags import UPKEEP
from incload_assets.restore.rebuild import rebuild


class RebuildConfig(Chosen):
    """The tables to rebuild, and whether only to look."""

    dry_run: bool = Field(default=False, description="Report nothing, only log what could be proven.")


BACKUP_CRON = "0 2 * * *"
"""When the storage is backed up, in UTC: before the nightly maintenance."""


def backup_job() -> dg.JobDefinition:
    """The job ``backup_instance``, which makes a backup of Dagster's default storage; others are left alone."""

    @dg.op
    def back_up_instance(context: dg.OpExecutionContext) -> None:
        if not is_sqlite(context.instance):
            context.log.info("Dagster's storage is not in SQLite files; it is backed up by its own means")
            return
        done = back_up(context.instance, Settings().backups_root)
        if is_by_hand(context.run):
            details, who = {"file": str(done.file)}, actor_of(context.run)
            entry = AuditEntry(action="backup", actor=who, run_id=context.run_id, details=details)
            record(Lake.of(Settings()), entry)
        context.log.info(f"{done.databases} databases in {done.file}; removed {len(done.removed)} older backups")

    @dg.job(
        name="backup_instance",
        description="Saves Dagster's storage, with all checkpoints, unless it is a database with backups of its own.",
        tags=UPKEEP,
    )
    def job() -> None:
        back_up_instance()

    return job


def rebuild_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job ``rebuild_checkpoints``; what it does is described in :mod:`incload_assets.restore.rebuild`."""
    by_name = {table.name: table for table in tables}

    @dg.op(config_schema=form_of(RebuildConfig, by_name), required_resource_keys={"spark", "lake"})
    def rebuild_each(context: dg.OpExecutionContext) -> None:
        config, lake = RebuildConfig(**context.op_config), context.resources.lake
        faults = Faults(lake, context.log.error)

        def rebuild_one(name: str, table: Table) -> None:
            expect_readable(table, lake)
            if lake.delta(lake.log_uri(table.key.path)) is None:
                return
            with context.resources.spark.session(name) as spark:
                found = rebuild(LoadContext(spark, table, lake), context.instance, dry_run=config.dry_run)
            if found.proven and not config.dry_run:
                who, keys = actor_of(context.run), sorted(found.proven)
                done = AuditEntry(action="rebuild", table=name, partitions=keys, actor=who, run_id=context.run_id)
                record(lake, done)
            context.log.info(found.summary(name, dry_run=config.dry_run))
            for key, why in found.refused.items():
                context.log.warning(f"{name} {key}: {why}")

        for name in config.tables or sorted(by_name):
            with faults.of(by_name[name]):
                rebuild_one(name, by_name[name])
        if faults.errors:
            raise dg.Failure(f"not rebuilt: {', '.join(faults.errors)}", metadata=faults.found, allow_retries=False)

    @dg.job(
        name="rebuild_checkpoints",
        description="Proves partitions from log and table and reports them as loaded; for a lost Dagster storage.",
        tags=UPKEEP,
    )
    def job() -> None:
        rebuild_each()

    return job

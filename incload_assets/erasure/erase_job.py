"""The job ``erase_subject``: ``incload erase`` from the Dagster UI.

Dagster keeps the configuration of a run, so it has the person's fingerprints, and not the identifier.
"""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import Erasure
from incload_assets.platform.wording import several
from incload_assets.progress.audit import actor_of
from incload_assets.progress.confirmed import confirm_field, expect_confirmed
from incload_assets.progress.run_tags import UPKEEP


class EraseConfig(dg.Config):
    """The person to erase."""

    kind: str = Field(description="The kind of person, as the tables' subjects name it.")
    fingerprints: list[str] = Field(
        description="What `incload erase KIND VALUE --fingerprint` prints. The identifier itself does not belong here: "
        "Dagster keeps the configuration of its runs."
    )
    only_plan: bool = Field(default=False, description="Only look; nothing is changed.")
    because: str = Field(default="", description="The reason, for the audit.")
    confirm: str = confirm_field("the first of the fingerprints once more; not with only_plan")


def erase_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job that erases a person; what it does is described in :mod:`incload_assets.erasure.erase`.

    Args:
        tables: All incremental tables.
    """
    tables = list(tables)

    @dg.op(required_resource_keys={"spark", "lake"})
    def erase_one(context: dg.OpExecutionContext, config: EraseConfig) -> None:
        if not config.only_plan:
            gone = f"removes a {config.kind} and all old versions of the tables; only_plan shows what it would find"
            expect_confirmed("erase_subject", config.confirm, next(iter(config.fingerprints), ""), gone)
        with context.resources.spark.session("erase") as spark:
            eraser = Eraser(
                spark,
                context.resources.lake,
                tables,
                config.kind,
                frozenset(config.fingerprints),
                run_id=context.run_id,
                info=context.log.info,
            )
            if config.only_plan:
                made = eraser.plan()
            else:
                made = eraser.erase(context.instance, because=config.because, actor=actor_of(context.run))
        for line in made.lines(planned=config.only_plan):
            context.log.info(line)
        context.add_output_metadata(_metadata(made))
        if not (config.only_plan or made.is_proven):
            raise dg.Failure(
                f"a trace is left in {several(len(made.traces.found), 'file')}, "
                f"{len(made.traces.unreadable)} could not be read",
                metadata=_metadata(made),
                allow_retries=False,
            )

    @dg.job(
        name="erase_subject",
        description="Erases a person from all tables that have rows of this person, and searches every file of the "
        "lake for a trace.",
        tags=UPKEEP,
    )
    def job() -> None:
        erase_one()

    return job


def _metadata(made: Erasure) -> dict[str, dg.MetadataValue]:
    """The proof as metadata of the run."""
    rows = [
        dg.TableRecord({"table": name, "rows": found.rows, "changes": found.changes, "windows": found.windows})
        for name, found in made.tables.items()
    ]
    return {
        "erased": dg.MetadataValue.table(rows or [dg.TableRecord({"table": "none"})]),
        "files_read": dg.MetadataValue.int(made.traces.files),
        "bytes_read": dg.MetadataValue.int(made.traces.size),
        "files_with_a_trace": dg.MetadataValue.int(len(made.traces.found)),
        "files_unreadable": dg.MetadataValue.int(len(made.traces.unreadable)),
        "old_files_removed": dg.MetadataValue.int(made.removed.files),
        "not_reached": dg.MetadataValue.md("\n".join(f"- {what}" for what in made.unreached)),
    }

"""The forms of jobs for people: they name tables and partitions, and what does not exist is refused at the launch."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, get_type_hints

import dagster as dg
from pydantic import Field

from incload_assets.declaration.partition_keys import chosen
from incload_assets.declaration.table import Table
from incload_assets.progress.run_tags import UPKEEP


class Chosen(dg.Config):
    """The tables that a job processes."""

    tables: list[str] = Field(default=[], description="Names of tables; empty: all tables that the job applies to.")


class OneTable(dg.Config):
    """The table that a job is about."""

    table: str = Field(description="Name of the table.")


PARTITIONS = "Partition keys, and ranges such as 2026-01-01..2026-01-07"


class SomePartitions(OneTable):
    """The partitions that a job is about; none: those that its description says."""

    partitions: list[str]

    def keys(self, table: Table) -> list[str]:
        """The chosen partition keys, oldest first; raises IncrementalLoadError for one that the table lacks."""
        return chosen(table, ",".join(self.partitions)) if self.partitions else []


C = TypeVar("C", bound=OneTable)
JobOf = Callable[[Iterable[Table]], dg.JobDefinition]
"""Makes a job of all incremental tables."""


def form_of(kind: type[dg.Config], names: Iterable[str], whose: str = "tables") -> dict[str, dg.Field]:
    """The form of a job's configuration, whose fields ``table`` and ``tables`` take the given names and no others.

    The launchpad offers them, and refuses another one as not among ``whose``.
    """
    fields, name = {**kind.to_fields_dict()}, dg.Enum(whose, [dg.EnumValue(each) for each in sorted(names)])
    digest = hashlib.sha256("\n".join(name.config_values).encode()).hexdigest()[:12]
    name.key = f"{whose} {digest}"  # Dagster takes types of equal keys for one
    for field, taken in (("table", name), ("tables", [name])):
        if (old := fields.get(field)) is not None:
            default = {} if old.is_required else {"default_value": old.default_value}
            fields[field] = dg.Field(taken, description=old.description, **default)
    return fields


def table_job(
    name: str, step: str, tags: Mapping[str, str] = UPKEEP, *, expect: Callable[[Table, C], object] | None = None
) -> Callable[[Callable[[dg.OpExecutionContext, Table, C], None]], JobOf]:
    """A job about one table that a person names: a command, from the Dagster UI.

    It decorates what the job does with its step, the table and its configuration; the docstring describes the job.
    A table or partition that does not exist is refused when the job is launched, as is what ``expect`` raises an error
    for.
    """

    def job_of(work: Callable[[dg.OpExecutionContext, Table, C], None]) -> JobOf:
        kind = get_type_hints(work)["config"]

        def definition(tables: Iterable[Table]) -> dg.JobDefinition:
            by_name = {table.name: table for table in tables}

            @dg.op(name=step, config_schema=dict, required_resource_keys={"spark", "lake"})
            def only(context: dg.OpExecutionContext) -> None:
                config = kind(**context.op_config)
                work(context, by_name[config.table], config)

            def filled_in(form: dict[str, Any]) -> dict[str, Any]:
                table, config = by_name[form["table"]], kind(**form)
                if isinstance(config, SomePartitions):
                    config.keys(table)
                if expect is not None:
                    expect(table, config)
                return {"ops": {step: {"config": form}}}

            form = dg.ConfigMapping(config_fn=filled_in, config_schema=form_of(kind, by_name))

            @dg.job(name=name, description=work.__doc__, tags=tags, config=form)
            def job() -> None:
                only()

            return job

        return definition

    return job_of

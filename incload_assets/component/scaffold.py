"""The file that ``dg scaffold defs incload_assets.IncrementalTable NAME`` writes."""

from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from pydantic import BaseModel, Field

from incload_assets.component.inferred import attributes_of
from incload_assets.inference.infer import infer
from incload_assets.inference.places import FORMS, place_of
from incload_assets.platform.spark.resource import SparkResource

EXAMPLE = """\
# A table that loads incrementally, see `incload docs tables`. Each key is checked by `dg check yaml`.
name: {name}
description: One row per order, as last changed.
partitions_def: {{type: daily, start_date: "2026-01-01"}}
source:
  type: files # or kafka, debezium, query_by_time, query_by_id, several
  path: "{{landing}}/{name}/{{window:%Y-%m-%d}}/*.csv"
contract:
  columns:
    order_id: bigint
    customer_id: {{type: bigint, personal: true}}
    status: {{type: string, checks: {{isin: [new, paid, sent]}}}}
    amount: {{type: "decimal(12,2)", nullable: true, checks: {{ge: 0}}}}
    updated_at: timestamp
changes:
  keys: [order_id]
  sequence_by: [updated_at]
write: merge
"""
"""The attributes of a table, as an example."""


def example_attributes(name: str) -> Any:
    """The example's attributes, read."""
    return yaml.safe_load(EXAMPLE.format(name=name))


class Given(BaseModel):
    """The options of ``dg scaffold defs``: a place of rows from which the declaration is inferred; none: an example."""

    rows: str | None = Field(None, description=f"Where the table's rows are: {FORMS}.")


class TableScaffolder(dg.Scaffolder[Given]):
    """Writes a valid declaration of a table, to be changed."""

    @classmethod
    def get_scaffold_params(cls) -> type[Given]:
        """The model of the options."""
        return Given

    def scaffold(self, request: dg.ScaffoldRequest[Given]) -> None:
        """Writes ``defs.yaml`` into the folder of the table, or appends to the file that is given."""
        if request.scaffold_format == "python":
            raise ValueError("in Python a table is a function with @incremental_asset, see `incload docs tables`")
        name = request.target_path.stem if request.append else request.target_path.name
        rows = request.params.rows if request.params else None
        text = EXAMPLE.format(name=name) if rows is None else _inferred(name, rows)
        indented = "".join(f"  {line}" for line in text.splitlines(keepends=True))
        document = f"type: {request.type_name}\n\nattributes:\n{indented}"
        if request.append:
            with request.target_path.open("a") as file:
                file.write(f"---\n{document}")
        else:
            (request.target_path / "defs.yaml").write_text(document)


def _inferred(name: str, rows: str) -> str:
    """The attributes of a table as its rows look."""
    with SparkResource().session(name) as spark:
        return attributes_of(infer(spark, name, place_of(rows, Path.cwd())))

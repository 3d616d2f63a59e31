"""The file that ``dg scaffold defs incload_assets.IncrementalTable NAME`` writes."""

from typing import Any

import dagster as dg
import yaml

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


class TableScaffolder(dg.Scaffolder):
    """Writes a valid declaration of a table, to be changed."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Writes ``defs.yaml`` into the folder of the table, or appends to the file that is given."""
        if request.scaffold_format == "python":
            raise ValueError("in Python a table is a function with @incremental_asset, see `incload docs tables`")
        text = EXAMPLE.format(name=request.target_path.stem if request.append else request.target_path.name)
        indented = "".join(f"  {line}" for line in text.splitlines(keepends=True))
        document = f"type: {request.type_name}\n\nattributes:\n{indented}"
        if request.append:
            with request.target_path.open("a") as file:
                file.write(f"---\n{document}")
        else:
            (request.target_path / "defs.yaml").write_text(document)

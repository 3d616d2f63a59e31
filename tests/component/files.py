"""Files of YAML that declare tables, and how tests read them."""

from pathlib import Path

import dagster as dg
from dagster_dg_core.utils.check_utils import error_dict_to_formatted_error
from dagster_shared.yaml_utils import parse_yaml_with_source_position
from jsonschema import Draft202012Validator

from incload_assets import IncrementalTable
from incload_assets.assets.incremental import table_of
from incload_assets.component.incremental_table import TableAttributes
from incload_assets.declaration.table import Table

SCHEMA = Draft202012Validator(TableAttributes.model_json_schema())

PAYMENTS = """\
type: incload_assets.IncrementalTable

attributes:
  name: payments
  partitions_def: {type: daily, start_date: "2026-01-01"}
  source:
    type: files
    path: "{landing}/payments/{window:%Y-%m-%d}.csv"
  contract:
    columns:
      payment_id: bigint
      payer: {type: string, nullable: true, personal: true}
      amount:
        type: decimal(12,2)
        checks:
          ge: 0
      day: date
      updated_at: timestamp
  changes:
    keys: [payment_id]
    sequence_by: [updated_at]
  write:
    type: merge
    partition_by: day
"""
"""A table in a file."""


def written(folder: Path, text: str) -> Path:
    """The file of a table, in its folder."""
    file = folder / "defs.yaml"
    file.write_text(text)
    return file


def loaded(file: Path) -> list[dg.AssetsDefinition]:
    """The assets that a file declares, read as Dagster reads it."""
    tree = parse_yaml_with_source_position(file.read_text(), str(file))
    context = dg.ResolutionContext.default(tree.source_position_tree).at_path("attributes")
    return IncrementalTable.resolve_from_model(context, TableAttributes(tree.value["attributes"])).assets


def table_in(file: Path) -> Table:
    """The only table that a file declares."""
    [asset] = loaded(file)
    table = table_of(asset)
    assert table is not None
    return table


def reported(file: Path) -> list[str]:
    """The errors that ``dg check yaml`` reports about a file."""
    tree = parse_yaml_with_source_position(file.read_text(), str(file))
    found = SCHEMA.iter_errors(tree.value.get("attributes", {}))
    return [
        error_dict_to_formatted_error(None, error, tree.source_position_tree, ["attributes"]).partition("\n")[0]
        for error in found
    ]

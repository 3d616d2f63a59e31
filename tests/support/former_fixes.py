"""Fixes of rejected rows, as former versions recorded them."""

import json
from collections.abc import Sequence

import pyarrow as pa
from deltalake import write_deltalake

from incload_assets.change_log.decisions import decisions_uri
from incload_assets.platform.lake import Lake


def turn_into_fixes(lake: Lake, values: Sequence[dict[str, str]]) -> None:
    """Turns the decisions of a lake into fixes of a former version.

    Args:
        lake: The lake.
        values: The values that each fix gave, in the order of the decisions.
    """
    delta = lake.delta(decisions_uri(lake))
    assert delta is not None
    schema = delta.to_pyarrow_table().schema
    rows = delta.to_pyarrow_table().to_pylist()
    fixes = [row | {"kind": "fix", "values": json.dumps(given)} for row, given in zip(rows, values, strict=True)]
    write_deltalake(delta, pa.Table.from_pylist(fixes, schema), mode="overwrite")

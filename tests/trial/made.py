"""Cases of small tables, written as a person writes them."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T

from incload_assets.assets import Quarantine
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.trial.cases import Case, read_case
from incload_assets.trial.outcome import Difference, Outcome, differences, unexpected_stops
from tests.support.tables import Item, declared


def table(**options: Any) -> Table:
    """A table of items that tolerates any number of rejected rows, unless the options say otherwise."""
    made = table_of(declared(**{"quarantine": Quarantine(max_share=1.0)} | options))
    assert made is not None
    return made


def case(folder: Path, of: Table, text: str) -> Case:
    """The case with this text."""
    file = folder / "case.yaml"
    file.write_text(text)
    return read_case(file, of)


def wrong(of: Case, outcome: Outcome) -> list[Difference | str]:
    """The differences of an outcome."""
    return [*differences(of, outcome), *unexpected_stops(of, outcome)]


class Odd(Item):
    """Items with checks, personal ones among them."""

    value: T.StringType = pa.Field(nullable=True, isin=["a", "b"], metadata={"personal": True})
    seq: T.LongType = pa.Field(nullable=False, ge=0)
    amount: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 5, "scale": 2}, lt=100)
    day: T.DateType = pa.Field(nullable=True)


REASONS = """
windows:
  - window: 2026-01-01
    rows:
      - {id: null, value: c, seq: -1}
      - {id: 1, seq: word, amount: 1.234}
      - {id: 2, seq: 1, amount: 100.5, day: 2026-02-30}
      - {id: 3, value: a, seq: 2, amount: 7, day: 2026-02-28}
expected:
  - {id: 3, value: a, seq: 2, amount: 7.00, day: 2026-02-28}
rejected:
  - {id: null, _reason: "id: NULL is not allowed; value: *** not in [a, b]; seq: '-1' not >= 0"}
  - {id: 1, _reason: "seq: 'word' is not bigint; amount: '1.234' is not decimal(5,2)"}
  - id: 2
    _reason: "day: '2026-02-30' is not date (no time of day, year 1 to 9999); amount: '100.50' not < 100"
"""

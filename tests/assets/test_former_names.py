"""Tables and sources that import from where these names lived before still work, and are told where they live now."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from incload_assets import assets, loading
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.window import Window
from incload_assets.loading import sources
from resources.lake import Lake
from tests.support.detection import detected
from tests.support.files import days
from tests.support.literal_source import LiteralSource

TABLE = """
import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from incload_assets.loading import Changes, Files, Merge, incremental_asset
from incload_assets.loading.sources import Position, Sees, Source, staged_json

class Order(pa.DataFrameModel):
    order_id: T.StringType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)

@incremental_asset(
    partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
    source=Files("{landing}/orders/{window:%Y-%m-%d}/*.json"),
    contract=Order,
    changes=Changes(keys=["order_id"], sequence_by=["seq"]),
    write=Merge(),
)
def orders(changes):
    return changes

print(orders.key.to_user_string())
"""


def test_a_table_that_imports_the_former_names_loads_and_says_where_they_live_now() -> None:
    done = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True, check=True)
    assert done.stdout == "orders\n"
    assert "write `from incload_assets.assets import incremental_asset`" in done.stderr
    assert "write `from incload_assets.assets import staged_json`" in done.stderr


def test_a_source_with_the_former_flags_and_arguments_works_and_says_what_to_write() -> None:
    with pytest.warns(FutureWarning) as warned:

        class Former(LiteralSource):
            keeps: ClassVar[bool] = True

            def detect(  # type: ignore[override]
                self, table: str, windows: Sequence[Window], landed: Mapping[str, Position], **more: Any
            ) -> dict[str, Position]:
                return {window.key: Position(f"{table} {more['lake'].root}") for window in windows if not landed}

            def prepare(  # type: ignore[override]
                self, spark: Any, table: str, windows: Sequence[Window], landed: Mapping[str, Position], lake: Lake
            ) -> None:
                self.content[table] = [{"lake": lake.root, "windows": str(len(windows))}]

    assert [str(warning.message).partition(": ")[2] for warning in warned] == [
        "keeps was renamed to retains_absent_keys",
        "detect now takes one argument, a DetectRequest",
        "prepare now takes a session and a DetectRequest",
    ]
    prepared = Former({})
    prepared.prepare(None, DetectRequest("orders", days(2), {}, Lake("/nowhere")))  # type: ignore[call-arg, arg-type]
    assert prepared.content == {"orders": [{"lake": "/nowhere", "windows": "2"}]}
    assert Former({}).retains_absent_keys and not LiteralSource({}).retains_absent_keys
    assert detected(Former({}), "orders", days(1), {})["2026-01-01"].fingerprint == "orders /nowhere"


@pytest.mark.parametrize("former", [loading, sources])
def test_a_name_that_never_was_is_refused_with_the_place_to_look(former: object) -> None:
    with pytest.raises(AttributeError, match=r"has no 'Upsert'; authors import from incload_assets.assets"):
        _ = former.Upsert  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_every_name_of_today_is_there() -> None:
    assert all(getattr(loading, name) is getattr(assets, name) for name in assets.__all__)

"""Orders of persons, one of whom is erased, for tests of real sources."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame

from incload_assets.assets import Hashed, Quarantine, Subject, incremental_asset
from tests.integration.erasure_proof import MARK, OTHER, PERSON, Proof, instance_in
from tests.support.tables import DAYS

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
PERSONAL = {"personal": True}
STATES = ["open", "paid"]
NESTED = T.StructType([T.StructField("phone", T.StringType())])
Row = tuple[Any, ...]


class Order(pa.DataFrameModel):
    """An order of a person; all its values are personal."""

    id: T.StringType = pa.Field(nullable=False, metadata=PERSONAL)
    person: T.LongType = pa.Field(nullable=True, metadata=PERSONAL)
    value: T.StringType = pa.Field(nullable=True, metadata=PERSONAL)
    state: T.StringType = pa.Field(nullable=True, isin=STATES, metadata=PERSONAL)


class KafkaOrder(Order):
    """An order as a message."""

    nested: NESTED = pa.Field(nullable=True, metadata=PERSONAL)  # type: ignore[valid-type]
    kafka_offset: T.LongType = pa.Field(nullable=False)


class HashedKafkaOrder(KafkaOrder):
    """The same, with persons that are tokens."""

    person: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed(key="crm")})


class ChangedOrder(Order):
    """An order as an event of Debezium."""

    doc: T.StringType = pa.Field(nullable=True, metadata=PERSONAL)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


class DatedOrder(Order):
    """An order as a row of a database."""

    doc: T.StringType = pa.Field(nullable=True, metadata=PERSONAL)
    changed: T.TimestampType = pa.Field(nullable=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all that the test's loads leave."""
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "k" * 40)
    monkeypatch.setenv("INCLOAD_KEY_CRM", "c" * 40)
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path / "all" / "home"))
    (tmp_path / "all" / "home").mkdir(parents=True)
    return tmp_path / "all"


@pytest.fixture
def instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    """Dagster's instance in the folder."""
    with instance_in(folder) as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the present of sources and loads to so many days after the first window begins."""

    def to(days: float) -> None:
        monkeypatch.setattr("incload_assets.declaration.window.now", lambda: FIRST + timedelta(days))

    return to


def orders_of(**options: Any) -> dg.AssetsDefinition:
    """The table, whose persons can be erased."""
    usual: dict[str, Any] = {
        "partitions_def": DAYS,
        "subject": Subject("person", by="person"),
        "quarantine": Quarantine(max_share=0.9),
        "code_version": "1",
        "undo_retention": timedelta(days=36_500),  # by the clock of a test loads are of 2026, the erasure is of today
    }

    @incremental_asset(**usual | options)
    def orders(changes: DataFrame) -> DataFrame:
        return changes

    return orders


def hers(name: str, value: str = "", **more: Any) -> dict[str, Any]:
    """A row of the person, with a mark in every text."""
    return {"id": f"{name}-{MARK}", "person": PERSON, "value": f"{value} {MARK}", "state": "open"} | more


def of_another(name: str, value: str = "v", **more: Any) -> dict[str, Any]:
    """A row of somebody else."""
    return {"id": name, "person": OTHER, "value": value, "state": "open"} | more


def others(*names: str) -> set[Row]:
    """The rows of somebody else, as the table has them."""
    return {(name, OTHER, "v", "open") for name in names}


def rows(proof: Proof) -> set[Row]:
    """The whole table."""
    return proof.kept.rows("id", "person", "value", "state")


def torn(name: str) -> str:
    """A record of the person that cannot be parsed."""
    return f'{{"id": "{name}-{MARK}", "person": {PERSON}, "value": "{MARK}", "torn'

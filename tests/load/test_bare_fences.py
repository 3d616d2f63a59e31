"""A window whose position and code are those of the log turns green without its source, whatever Dagster has lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.window import window_of
from incload_assets.ingest.ingest import ingest
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.load.range_fences import range_app_id
from incload_assets.platform.errors import ReconciliationFailed, SourceMissing, SourceUnreadable
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.trial.literal_source import LiteralSource, Record
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of
from tests.support.tables import DAYS, Loaded, day, item, make

FIRST = window_of(DAYS, day(1))
LOST = Checkpoint(untried=True)
"""What Dagster knows after its storage was lost: no run, so that none seems to have tried the window."""


@dataclass(frozen=True)
class ExpiringSource(LiteralSource):
    """A source whose rows can expire: then its positions are still known, or not even they are.

    Args:
        state: ``"now"`` is ``there``, ``expired`` (only its rows are gone), ``gone`` or ``refusing``.
    """

    state: Mapping[str, str] = None  # type: ignore[assignment]

    def settled(self, position: Position) -> bool:
        """Windows of the first day are."""
        return position.detail["rows"][0]["id"] == "k"

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The positions, unless they are gone, too."""
        if self.state["now"] == "refusing":
            raise SourceUnreadable("it is another topic now", rule="", remedy="")
        return {} if self.state["now"] == "gone" else super().detect(request)

    def extract(self, *arguments: Any) -> DataFrame:
        """The rows, unless they are gone."""
        if self.state["now"] != "there":
            raise SourceUnreadable("the rows have expired", rule="", remedy="")
        return super().extract(*arguments)


def fences(table: Loaded) -> dict[str, int]:
    """The numbers of the first window's fences, and of the ranges with it."""
    log, uri = table.lake.log_uri(["items"]), table.uri
    in_log = {
        name: log for name in (ingestion_app_id(table.table, FIRST), f"{range_app_id(table.table, FIRST)}/landing")
    }
    in_table = {name: uri for name in (app_id(table.table, FIRST), range_app_id(table.table, FIRST))}
    return {name: table.lake.transaction_version(at, name) or 0 for name, at in (in_log | in_table).items()}


def test_an_expired_window_is_green_again_after_its_checkpoint_was_lost_and_after_a_failed_load(
    spark: SparkSession, tmp_path: Path
) -> None:
    content: dict[str, list[Record]] = {day(1): [item("k", "a", 1)], day(2): [item("m", "b", 1)]}
    state = {"now": "there"}
    table = make(spark, tmp_path, source=ExpiringSource(content, state))
    first, _ = table.load(1), table.load(2)
    for now, known in (("expired", LOST), ("gone", LOST), ("refusing", LOST), ("expired", first)):
        state["now"] = now
        checkpoint = known if isinstance(known, Checkpoint) else Checkpoint(first.record.fingerprint, clean=False)
        if now != "gone":  # the fence of a table that is right is moved, too
            spark.sql(f"UPDATE {table.lake.sql_name(table.uri)} SET value = 'edited', seq = 9 WHERE id = 'k'")
        before = fences(table)
        again = table.load(1, checkpoint=checkpoint)
        assert (again.ingested, again.record) == (False, first.record)
        assert table.rows() == {("k", "a", 1), ("m", "b", 1)}  # its keys are folded in full
        assert all(fences(table)[name] > before[name] for name in before if "range" not in name)
    state["now"] = "refusing"
    with pytest.raises(SourceUnreadable, match="another topic"):
        table.load(2, checkpoint=LOST)  # the window was open when it was ingested
    state["now"] = "gone"
    with pytest.raises(SourceMissing):
        table.load(3, checkpoint=LOST)


def test_a_killed_landing_that_arrives_after_a_load_without_a_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, {day(1): [item("k", "right", 1)]})
    load = LoadContext(spark, table.table, table.lake)
    before, version = table.load(1).record, load.log.version() or 0
    held = Ingestion(FIRST, _position([item("k", "wrong", 1)]), before, version, settled=False)
    assert not table.load(1, checkpoint=LOST).ingested
    assert not ingest(load, held, strategy_of(table.table).guard)
    assert table.log("upsert", "id", "value") == [("k", "right")]
    table.content[day(1)] = [item("k", "newer", 2)]
    assert (table.load(1).record.landing, table.rows()) == (3, {("k", "newer", 2)})  # above the bare fence


def test_a_landing_that_arrives_before_the_fence_moves_is_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from incload_assets.load import load as module

    table = make(spark, tmp_path, {day(1): [item("k", "right", 1)]})
    load = LoadContext(spark, table.table, table.lake)
    before, version = table.load(1).record, load.log.version() or 0
    held = Ingestion(FIRST, _position([item("k", "wrong", 1)]), before, version, settled=False)
    move = module.bare_fence

    def overtaken(*arguments: Any, **options: Any) -> int:
        if module.bare_fence is not move:
            monkeypatch.setattr(module, "bare_fence", move)
            assert ingest(load, held, strategy_of(table.table).guard)
        return move(*arguments, **options)

    monkeypatch.setattr(module, "bare_fence", overtaken)
    assert table.load(1).ingested
    assert table.rows() == {("k", "right", 1)}


def test_a_log_that_somebody_damaged_is_read_from_its_source_again_or_says_what_is_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    state = {"now": "there"}
    table = make(spark, tmp_path, source=ExpiringSource({day(1): [item("k", "a", 1), item("m", "b", 1)]}, state))
    table.load(1)
    log = table.lake.sql_name(table.lake.log_uri(["items"]))
    spark.sql(f"DELETE FROM {log} WHERE id = 'm'")
    state["now"] = "expired"
    with pytest.raises(ReconciliationFailed, match="2 rows were read, but 1 applied"):
        table.load(1)
    state["now"] = "there"
    assert table.load(1).ingested
    assert table.rows() == {("k", "a", 1), ("m", "b", 1)}


def _position(rows: list[Record]) -> Position:
    request = DetectRequest("items", [FIRST], {}, None)  # type: ignore[arg-type]
    return LiteralSource({FIRST.key: rows}).detect(request)[FIRST.key]

"""Undo where a window was landed several times from one source position: by replays, decisions, fills and undos."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.former import FormerLanding
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WITHDRAWN, WindowRecord
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import now, window_of
from incload_assets.load.load import LoadReport
from incload_assets.load.pending import pending_windows
from incload_assets.load.replay import replay_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Return, Undo, kept_landings, plan_undo, return_of
from incload_assets.platform.errors import CannotUndo, WindowHeld
from incload_assets.progress.checkpoint import DATA_VERSION_TAG, Checkpoint
from incload_assets.quarantine.decide import decide_where
from incload_assets.sources.files.files import Files
from tests.support.tables import Loaded, day, make


class Payment(pa.DataFrameModel):
    """A payment of any amount."""

    id: T.LongType = pa.Field(nullable=False)
    amount: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 10, "scale": 2})
    seq: T.LongType = pa.Field(nullable=False)


class Positive(Payment):
    """A payment that is not negative."""

    amount: T.DecimalType = pa.Field(nullable=True, ge=0, dtype_kwargs={"precision": 10, "scale": 2})


def deliver(landing: Path, number: int, *rows: tuple[int, Any, int, str]) -> Path:
    path = landing / "payments" / f"{day(number)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    records = ({"id": id, "amount": amount, "seq": seq, "op": op} for id, amount, seq, op in rows)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def payments(spark: SparkSession, folder: Path, contract: type, version: str) -> Loaded:
    return make(
        spark,
        folder / "lake",
        source=Files("{landing}/payments/{window:%Y-%m-%d}.json"),
        contract=contract,
        quarantine=Quarantine(max_share=0.9),
        code_version=version,
        name="payments",
    )


def amounts(table: Loaded) -> dict[int, str]:
    return {id: str(amount) for id, amount in table.rows("id", "amount")}


def undone(table: Loaded, number: int, before: str = "last") -> LoadReport:
    window = window_of(table.table.partitions_def, day(number))
    return undo_window(table.context(), window, Undo(before, actor="ada"))


def replayed(table: Loaded, number: int) -> LoadReport:
    return replay_window(table.context(), window_of(table.table.partitions_def, day(number)))


def next_of(table: Loaded, number: int) -> list[int]:
    """The landing that the history says an undo returns to."""
    return [one.number for one in kept_landings(table.table, table.lake, [day(number)]) if one.is_next]


class Killed(BaseException):
    """The end of a process."""


def die(*_: object, **__: object) -> None:
    raise Killed


def test_an_undo_after_a_replay_gives_what_the_window_held_before_the_replay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = tmp_path / "landing"
    monkeypatch.setenv("INCLOAD_LANDING", str(landing))
    rows = [(1, 10, 1, "u"), (6, 60, 1, "u"), (2, -5, 1, "u"), (3, -7, 1, "u"), (4, -9, 1, "u"), (5, "free", 1, "u")]
    file = deliver(landing, 5, *rows)
    deliver(landing, 6, (2, 20, 9, "u"), (4, None, 9, "d"))
    strict = payments(spark, tmp_path, Positive, "1")
    strict.load(5)
    strict.load(6)
    assert amounts(strict) == {1: "10.00", 6: "60.00", 2: "20.00"}
    file.unlink()
    corrected = payments(spark, tmp_path, Payment, "2")
    replay = replayed(corrected, 5)
    assert (replay.record.rejected, replay.evidence.stale) == (1, 2)
    assert amounts(corrected) == {1: "10.00", 6: "60.00", 2: "20.00", 3: "-7.00"}

    assert next_of(corrected, 5) == [1]
    [plan] = plan_undo(corrected.table, corrected.lake, [day(5)], Undo())
    assert (plan.rows_former, plan.refused) == (6, "")
    report = undone(corrected, 5)
    assert amounts(corrected) == {1: "10.00", 6: "60.00", 2: "20.00"}
    assert (report.evidence.rows_read, report.evidence.quarantined, report.evidence.pending) == (6, 4, 0)
    assert sorted(row[0] for row in corrected.log("rejected", "id")) == [2, 3, 4, 5]

    # an undo of the undo, repeated as after a kill: it ends the hold, and does nothing more
    again = undone(corrected, 5, "3")
    assert again.record.hold is None and amounts(corrected)[3] == "-7.00"
    repeated = undone(corrected, 5, "3")
    assert (repeated.ingested, repeated.record.hold, repeated.record.landing) == (False, None, 4)
    assert next_of(corrected, 5) == [3]

    # an undo that was killed before its merge; the checkpoint of the replay has the same fingerprint
    with monkeypatch.context() as killed:
        killed.setattr("incload_assets.load.revision.apply_changes", die)
        with pytest.raises(Killed):
            undone(corrected, 5)
    checkpoint = Checkpoint(again.record.fingerprint, clean=True)
    with dg.DagsterInstance.ephemeral() as instance:
        for key, record in ChangeLog(corrected.table, corrected.lake).records().items():
            tags = {DATA_VERSION_TAG: record.fingerprint}
            instance.report_runless_asset_event(dg.AssetMaterialization(corrected.table.key, partition=key, tags=tags))
        assert pending_windows(instance, corrected.table, corrected.lake) == [day(5)], "incload load --all-missing"
        assert corrected.load(5, checkpoint=checkpoint).ingested is False
        assert pending_windows(instance, corrected.table, corrected.lake) == []
    assert amounts(corrected) == {1: "10.00", 6: "60.00", 2: "20.00"}
    with pytest.raises(WindowHeld):
        corrected.load(5, checkpoint=checkpoint)
    assert next_of(corrected, 5) == [], "it is undone"

    # the file is gone, so that a release leaves the rows as they are; the last to differ is the undo of the undo
    assert corrected.load(5, checkpoint=checkpoint, if_held="release").record.rejected == 4
    assert next_of(corrected, 5) == [4]


def test_landings_of_equal_content_are_not_what_an_undo_returns_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = tmp_path / "landing"
    monkeypatch.setenv("INCLOAD_LANDING", str(landing))
    deliver(landing, 7, (1, 10, 1, "u"), (2, 20, 1, "u"))
    payments(spark, tmp_path, Positive, "1").load(7)
    rows = [(8, -80, 1, "u"), (7, 70, 1, "u"), (9, None, 1, "d")]
    deliver(landing, 7, *rows)
    payments(spark, tmp_path, Positive, "1").load(7)
    other = payments(spark, tmp_path, Positive, "2")
    deliver(landing, 7, *reversed(rows))
    report = other.load(7)
    assert (report.ingested, report.record.landing, amounts(other)) == (True, 3, {7: "70.00"})
    assert next_of(other, 7) == [1], "neither other code nor the order of the records has changed the rows"

    assert decide_where(spark, other.table, other.lake, "accept", "an exception", text="amount: ")[1] == 1
    replayed(other, 7)
    replayed(other, 7)
    assert amounts(other) == {7: "70.00", 8: "-80.00"}
    assert next_of(other, 7) == [3], "the second replay has changed nothing"
    assert undone(other, 7).record.landing == 6
    assert amounts(other) == {7: "70.00"}
    with pytest.raises(CannotUndo, match="was never loaded"):
        undone(other, 8)


def landed(number: int, former: int | None, content: int | None, **more: Any) -> WindowRecord:
    return WindowRecord(
        landing=number, former=former, content=content, fingerprint="same", position="{}", summary="",
        code_version="1", run_id=f"run of {number}", landed_at=now(), rows_read=1, rejected=0, replaced=0, **more,
    )  # fmt: skip


def to(before: str, *records: WindowRecord) -> int:
    """The landing that an undo returns a window to; the last record is the present one, 0 is before the first load."""
    *former, present = records
    kept = [FormerLanding(day(1), record, (), now()) for record in former]
    table = make(None, Path(), {}).table  # type: ignore[arg-type]  # nothing is loaded
    found = return_of(table, day(1), present, kept, Undo(before))
    return found.former.record.landing if found.former else 0


def test_an_undo_returns_to_the_last_landing_with_other_content_that_led_to_the_present_one() -> None:
    a, b = landed(1, 0, 10), landed(2, 1, 20)
    assert to("last", a, b, landed(3, 2, 20)) == 1
    assert to("last", a, landed(2, 1, 10)) == 0, "nothing but the first load has changed it"
    assert to("last", a, b, landed(3, 2, 10), landed(4, 3, 20)) == 3, "an undo, and an undo of it"
    assert to("last", a, landed(3, 1, 20)) == 1, "a landing that never was committed has the number 2"
    assert to("last", a, b, landed(3, 2, 30), landed(4, 1, 40)) == 1, "the log was restored to landing 1"
    assert to("last", a, landed(2, 1, None)) == to("last", landed(1, 0, None), b) == 1, "older code has landed one"
    assert to("4", a, b, landed(3, 2, 30), landed(4, 1, 40)) == 1
    assert to("run of 3", a, b, landed(3, 2, 20)) == 2, "what is named is undone, whatever it has changed"
    assert to("3", a, landed(4, 3, 20)) == 1, "of the others that were kept, the newest before it"
    with pytest.raises(CannotUndo, match="what it held before its landing 4 is not kept"):
        to("last", a, landed(4, 3, 20))
    with pytest.raises(CannotUndo, match="what it held before 2 is not kept"):
        to("2", landed(2, 1, 20), landed(3, 2, 30))


def test_an_undo_lands_nothing_where_a_window_holds_what_it_would_return_to() -> None:
    table = make(None, Path(), {}).table  # type: ignore[arg-type]  # nothing is loaded
    former = FormerLanding(day(1), landed(1, 0, 10), (), now())
    assert return_of(table, day(1), landed(2, 1, 10), [former], Undo("2")) == Return(former, done=True)
    assert return_of(table, day(1), landed(2, 1, 20), [former], Undo("2")) == Return(former)
    assert return_of(table, day(1), landed(1, 0, 10), [], Undo()) == Return(None)
    withdrawn = replace(landed(2, 1, 0), fingerprint=WITHDRAWN)
    assert return_of(table, day(1), withdrawn, [former], Undo("1")) == Return(None, done=True)

"""Rejected rows by reason, with masked samples, and for how long they are open: until superseded or discarded."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.checks.quarantine import quarantine
from incload_assets.cli.commands.quarantine import export_rows
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import audit_uri
from incload_assets.quarantine.decide import decide_where, take_back
from incload_assets.quarantine.quarantine import masked_payload, quarantine_of
from tests.support.guest_table import House, guest, house, key


def actions(h: House) -> list[str]:
    delta = h.lake.delta(audit_uri(h.lake))
    assert delta is not None
    return [row["action"] for row in sorted(delta.to_pyarrow_table().to_pylist(), key=lambda row: row["number"])]


def test_rejected_rows_are_counted_by_reason_and_are_open_until_superseded_or_discarded(
    tmp_path: Path, spark_settings: Settings, spark: SparkSession
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2", room=0), guest("3", room="attic"), guest("4"), guest("5"))
        h.deliver(2, guest("2", seq=2, day=2), guest("6", room=-1, day=2), guest("7", day=2))
        assert h.load(1, 2) == [True, True]
        few, typed = quarantine_of(spark, h.table, h.lake)
        assert (few.column, few.rows, few.per_window) == ("room", 2, {key(1): 1, key(2): 1})
        assert (few.open, few.superseded, few.discarded) == (1, 1, 0)
        assert few.first_seen < few.last_seen and (typed.column, typed.open) == ("room", 1)
        assert "attic" not in typed.reason and "0" not in few.reason.replace("greater", "")
        [sample] = typed.samples
        assert json.loads(sample.payload) == guest("3", "***", room="attic")
        assert sample.place.endswith("a.json row 3") and sample.state == "open"
        assert {one.state for one in few.samples} == {"open", "superseded"}

        h.deliver(1, guest("9"), guest("1"), guest("2", room=0), guest("3", room="attic"), guest("4"), guest("5"))
        entry, count = decide_where(spark, h.table, h.lake, "discard", "no such room", text="is not bigint")
        assert entry is not None and count == 1
        assert h.load(1) == [True]  # the decision is not forgotten, although the record moved within its file
        assert [(one.open, one.discarded) for one in quarantine_of(spark, h.table, h.lake)] == [(1, 0), (0, 1)]
        lines = tmp_path / "rows.jsonl"
        assert export_rows(spark, h.table, h.lake, lines) == 2
        told = [json.loads(line) for line in lines.read_text().splitlines()]
        names = [(row["row"], json.loads(row["payload"])["name"]) for row in told]
        assert names == [(3, "name of 2"), (2, "name of 6")]
        assert take_back(h.table, h.lake, "discard", entry.number, "there is one").details["rows"] == "1"
        assert sum(one.open for one in quarantine_of(spark, h.table, h.lake)) == 2
        with pytest.raises(IncrementalLoadError, match=f"no discard in force has the number {entry.number}"):
            take_back(h.table, h.lake, "discard", entry.number, "once more")
        assert actions(h) == ["discard", "read", "undo"]

        landed = h.look().records[key(2)].landed_at
        fresh = quarantine(h.look(landed + timedelta(days=13)))
        aged = quarantine(h.look(landed + timedelta(days=15)))
        assert "open_rows_too_old" not in fresh.metadata
        assert aged.metadata["open_rows_too_old"].value == 3 and not aged.passed
        assert "more than 14 days ago and still open" in str(aged.description)
        assert "attic" not in str(aged.metadata)
        assert decide_where(spark, h.table, h.lake, "discard", "all of them")[1] == 3
        assert "open_rows_too_old" not in quarantine(h.look(landed + timedelta(days=15))).metadata
        assert decide_where(spark, h.table, h.lake, "discard", "again") == (None, 0)


def test_a_payload_shows_only_what_the_contract_knows_and_does_not_call_personal(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        shown = masked_payload(h.table, '{"id": "1", "name": "Ada", "mail": "ada@x", "room": null}')
        assert json.loads(shown) == {"id": "1", "name": "***", "mail": "***", "room": None}
        assert masked_payload(h.table, '"1",Ada') == "***"
        assert masked_payload(h.table, None) == ""

"""A request to a run comes back from its tags as it was given."""

from pathlib import Path

import pytest

from incload_assets.progress.request import Request, request_of
from tests.support.tables import make

SENSORS = Request(
    table="orders",
    first="2026-01-03",
    last="2026-01-03",
    fingerprints={"2026-01-03": "f3"},
    attempt=2,
    code_version="c1",
)
RANGE = Request(
    table="orders",
    first="2026-01-03",
    last="2026-01-05",
    fingerprints={"2026-01-03": "f3", "2026-01-04": "f4", "2026-01-05": "f5"},
    attempt=1,
    code_version="c1",
)
BACKFILL = Request(first="2026-01-03", last="2026-01-05", started_by="command line")


@pytest.mark.parametrize(
    "request_",
    [
        Request(),
        Request(table="customers", serialized=True),
        Request(action="undo", before="last", because="wrong prices"),
        Request(action="undo", before="17"),
        Request(action="release", because="right after all"),
        Request(action="replay"),
        Request(action="replay", because="the rule was wrong", table="orders", code_version="c2"),
        Request(action="fill", because="amount is declared now"),
        Request(rewrite_compacted=True),
        Request(chunks=16, at_once=2),
        RANGE,
        BACKFILL,
    ],
    ids=str,
)
def test_a_request_comes_back_from_its_tags(request_: Request) -> None:
    tags = request_.as_tags()
    assert Request.from_tags(tags) == request_
    assert all(tags.values()), "Dagster keeps no empty tags"


def test_dagster_itself_says_which_partition_a_run_over_one_has() -> None:
    tags = SENSORS.as_tags()
    assert tags == {
        "incload/table": "orders",
        "incload/partition": "2026-01-03",
        "incload/fingerprint": "f3",
        "incload/attempt": "2",
        "incload/code_version": "c1",
    }
    assert Request.from_tags({**tags, "dagster/partition": "2026-01-03"}) == SENSORS


def test_only_ranges_that_a_sensor_requests_count_for_the_queue_as_ranges() -> None:
    assert RANGE.as_tags()["incload/partitions"] == "2026-01-03...2026-01-05"
    assert "incload/partitions" not in BACKFILL.as_tags()


def test_a_person_may_give_the_reason_of_a_replay_in_either_tag() -> None:
    assert Request.from_tags({"incload/replay": "-"}).because == ""
    assert Request.from_tags({"incload/replay": "-", "incload/because": "the rule was wrong"}).because == (
        "the rule was wrong"
    )


def test_a_load_in_chunks_keeps_no_other_load_of_its_table_in_the_queue() -> None:
    table = make(None, Path("nowhere")).table  # type: ignore[arg-type]
    assert table.write.serialized
    assert request_of(table).serialized
    assert not request_of(table, Request(chunks=16, at_once=2)).serialized

"""What every kind of source has to do, against the real thing and through the real loads."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Dropped, Freshness, Hashed, Quarantine, incremental_asset
from incload_assets.declaration.source import EXTRACTED_COLUMNS, PRESENT, SKIPPED, WHOLE, Position
from incload_assets.declaration.window import Window, first_window, window_of
from incload_assets.load.ranges import load_first_windows
from incload_assets.load.replay import replay_window, unreplayable
from incload_assets.platform.errors import IncrementalLoadError, SourceChanged
from incload_assets.platform.failures import translate
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.protection.protect import token
from tests.sources.case import Case, Content, Everything, Named, Place, Row
from tests.sources.cases import CASES
from tests.support.detection import detected
from tests.support.file_texts import texts
from tests.support.tables import Loaded, day, make
from tests.support.watched import Watched

ANSWERS_WITHIN = 30.0
"""Seconds until a source that is out of reach has to be given up."""
WHERE = "struct<file:string,block:bigint,row:bigint>"
FIELDS = ["id", "name", "nowhere", "op", "seq"]
TWO_HOURS_EAST = timezone(timedelta(hours=2))

pytestmark = pytest.mark.integration


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(
    request: pytest.FixtureRequest, spark_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Case]:
    with open_session(spark_settings) as spark:
        place = Place(tmp_path, spark, monkeypatch, request)
        with place.closing:
            yield request.param(place)


def row(id: str, seq: int, **values: Any) -> Row:
    return {"id": id, "name": f"{id} at {seq}", "seq": seq, "op": "u", **values}


ODD: Sequence[Row] = [
    row("full", 1, amount=Decimal("12345678901234567890.123456789012345678"), big=2**63 - 1, small=-(2**31), ratio=0.1,
        flag=True, born=date(1815, 12, 10), at=datetime(2026, 1, 1, 9, 30, 0, 123456, TWO_HOURS_EAST), extra="more"),
    row("negative", 1, amount=Decimal("-0.000000000000000001"), big=-(2**63), small=0, ratio=-1.5e300, flag=False,
        born=date(2026, 2, 28), at=datetime(2026, 1, 1, 23, 59, 59, 999999, UTC)),
    row("null", 1, name=None, amount=None, big=None, small=None, ratio=None, flag=None, born=None, at=None),
    row("empty", 1, name=""),
    row("wörter 日本 🎈", 1, name='🎈 "quoted", d\'été; a\\b, tab\tand more'),
]  # fmt: skip
"""Values that get lost easily."""
UNTYPABLE = row("unknown", 1, small=3_000_000_000)

FIRST: Content = {
    day(1): [row("a", 1), row("b", 1), row("c", 1)],
    day(2): [row("d", 1), row("e", 1), row("f", 1)],
    day(3): [*ODD, UNTYPABLE],
    day(4): [row("g", 1), row("h", 1), row("i", 1)],
}
"""Each key once: what any source can hold."""
CHANGES: Content = {
    day(1): [row("a", 3), row("b", 1), row("b", 2), row("c", 1), row("d", 1)],
    day(2): [row("a", 2), row("c", 2, op="d"), row("d", 4, op="d"), row("e", 1)],
    day(3): [*ODD, UNTYPABLE],
    day(4): [row("d", 2), row("e", 3), row("e", 2), row("f", 1, op="d"), row("b", 0)],
}
"""Several changes of a key in a window and across windows, older ones later, deletes."""


def content_of(case: Case) -> dict[str, Sequence[Row]]:
    return dict(CHANGES if case.keeps_changes else FIRST)


def folded(content: Iterable[Sequence[Row]], contract: type[pa.DataFrameModel] = Everything) -> set[tuple[Any, ...]]:
    """What the table has to hold: of each key the newest row that can be typed, unless it is a delete."""
    rows = [row for window in content for row in window if row != UNTYPABLE]
    newest = {row["id"]: row for row in sorted(rows, key=lambda row: (row["seq"], row["op"] == "d"))}
    columns = contract.to_schema().columns
    return {tuple(row.get(name) for name in columns) for row in newest.values() if row["op"] != "d"}


def windows(case: Case, numbers: Iterable[int]) -> list[Window]:
    return [window_of(case.partitions_def, day(number)) for number in numbers]


def month(case: Case) -> list[Window]:
    return windows(case, range(1, 32))


def table_of(case: Case, contract: type[pa.DataFrameModel] = Everything) -> Loaded:
    return make(
        case.place.spark,
        case.place.folder / "lake",
        source=case.source(),
        contract=contract,
        changes=case.changes,
        partitions_def=case.partitions_def,
        quarantine=Quarantine(max_share=0.5),
    )


def look(table: Loaded, asked: Sequence[Window], landed: Mapping[str, Position] | None = None) -> dict[str, Position]:
    source = table.table.source
    first = first_window(table.table.partitions_def).start
    return detected(source, table.table.name, asked, landed or {}, first=first, lake=table.lake)


def as_stored(position: Position) -> Position:
    return Position(**json.loads(json.dumps(asdict(position))))


def extracted(table: Loaded, positions: Mapping[str, Position]) -> DataFrame:
    return table.table.source.extract_windows(table.spark, table.table.name, positions, FIELDS)


def test_payloads_are_parsed_to_the_records_that_were_read_or_are_refused(case: Case) -> None:
    case.fill(content_of(case))
    table = table_of(case)
    rows = extracted(table, look(table, windows(case, (1, 2, 3))))
    if why := table.table.source.unreadable_payloads(FIELDS):
        assert case.name in why.lower() or "payload" in why
        return
    again = table.table.source.read_payloads(rows.select("_payload", "_source", "_window"), FIELDS)
    assert set(again.columns) >= {*EXTRACTED_COLUMNS, PRESENT, "_window"}
    columns = [name for name in rows.columns if name in (*EXTRACTED_COLUMNS, SKIPPED, "_window")]
    read, parsed = (
        [tuple(row) for row in frame.select(*columns, F.array_sort(PRESENT)).orderBy("_source").collect()]
        for frame in (rows, again)
    )
    assert parsed == read and read


def test_chunks_of_a_window_together_have_each_row_once_and_known_ones_stay(case: Case) -> None:
    case.fill(content_of(case))
    table = table_of(case)
    source, name = table.table.source, table.table.name
    positions = look(table, windows(case, (1, 2, 3)))
    if not source.divides():
        assert not any(source.divided(name, position, 4) for position in positions.values())
        return
    columns = ["_raw", "_payload", "_source"]
    for key, position in positions.items():
        chunks = source.divided(name, position, 2)
        known = [as_stored(chunk) for chunk in chunks[1:]]
        again = source.divided(name, position, 3, known)
        assert {chunk.fingerprint for chunk in known} <= {chunk.fingerprint for chunk in again}
        whole = extracted(table, {key: position}).select(*columns).collect()
        for parts in (chunks, again):
            assert parts or not whole
            read = [row for part in parts for row in extracted(table, {"": part}).select(*columns).collect()]
            assert sorted(read, key=repr) == sorted(whole, key=repr)


class Protected(Everything):
    """The same with personal columns whose values are hashed, and dates that are dropped."""

    id: T.StringType = pa.Field(nullable=False, metadata={"personal": Hashed(key="crm")})
    name: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed(key="crm")})
    born: T.DateType = pa.Field(nullable=True, metadata={"personal": Dropped()})


def test_personal_values_of_any_source_are_in_no_file_of_the_lake_and_rows_are_those_of_tokens(case: Case) -> None:
    case.place.patch.setenv("INCLOAD_KEY_CRM", "a key of at least 32 characters, made up")
    marker, hashed = "Ada Lovelace ", partial(token, Hashed(key="crm"))
    content = {
        window: [
            one | {"id": marker + one["id"], "name": one["name"] and marker + one["name"], "extra": marker}
            for one in rows
        ]
        for window, rows in content_of(case).items()
    }
    case.fill(content)
    table = table_of(case, Protected)
    for number in (1, 2, 3, 4):
        table.load(number)
    wanted = {
        (hashed(row[0]), None if row[1] is None else hashed(row[1]), *row[2:7], None, *row[8:])
        for row in folded([[one for one in rows if one["id"] != marker + UNTYPABLE["id"]] for rows in content.values()])
    }
    assert table.rows() == wanted
    assert marker not in texts(case.place.folder / "lake")
    [(payload,)] = table.log("rejected", "_payload")
    assert json.loads(payload)["id"] == hashed(marker + UNTYPABLE["id"])
    if not unreplayable(table.table):
        replay_window(table.context(), windows(case, [3])[0])
        assert len(table.log("rejected", "_payload")) == 1 and table.rows() == wanted


def test_a_look_tells_what_each_window_holds_and_notices_every_change(case: Case) -> None:
    content = content_of(case)
    case.fill(content)
    table = table_of(case)
    case.source().validate("items")

    seen = look(table, month(case))

    assert seen.keys() >= set(content) if case.shows_empty_windows else seen.keys() == set(content)
    assert len({seen[key].fingerprint for key in content}) == len(content)
    assert look(table, month(case)) == seen
    assert look(table, month(case), seen) == seen
    one_by_one = [look(table, [window], seen) for window in month(case)]
    assert {key: position for found in one_by_one for key, position in found.items()} == seen
    assert look(table, []) == {}
    assert {key: as_stored(position) for key, position in seen.items()} == seen
    assert table.table.source.missing("items", month(case), seen) == {}
    if case.secret:
        assert case.secret not in f"{seen} {case.source()!r} {case.source()}"
    if case.requests_for_300_windows is not None:
        before = case.requests()
        assert look(table, windows_before_today(case)).keys() >= set(content)
        assert 0 < case.requests() - before <= case.requests_for_300_windows
    if case.can_rewrite:
        case.rewrite(day(1), [*content[day(1)][:-1], {**content[day(1)][-1], "name": "other"}])
        other = look(table, month(case), seen)
        assert other[day(1)].fingerprint != seen[day(1)].fingerprint
        assert {k: p for k, p in other.items() if k != day(1)} == {k: p for k, p in seen.items() if k != day(1)}
        case.rewrite(day(1), content[day(1)])
        assert look(table, month(case), seen)[day(1)].fingerprint == seen[day(1)].fingerprint


def windows_before_today(case: Case) -> list[Window]:
    keys = case.partitions_def.get_partition_keys()[:300]
    return [window_of(case.partitions_def, key) for key in keys]


def test_every_row_is_read_once_as_it_is_with_the_columns_of_the_contract(case: Case) -> None:
    content = content_of(case)
    case.fill(content)
    table = table_of(case)
    positions = {key: as_stored(p) for key, p in look(table, windows(case, [1, 2, 3, 4])).items()}

    both = extracted(table, {key: positions[key] for key in (day(1), day(3))})
    one = extracted(table, {day(2): positions[day(2)]})
    empty = look(table, windows(case, [9])).get(day(9)) or table.table.source.empty_position(windows(case, [9])[0])
    none = extracted(table, {day(9): empty})

    for frame in (both, one, none):
        types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        assert {*EXTRACTED_COLUMNS, "_window"} <= set(types) <= {*EXTRACTED_COLUMNS, "_window", WHOLE, PRESENT, SKIPPED}
        assert [field.name for field in frame.schema["_raw"].dataType.fields] == FIELDS
        assert {types[name] for name in ("_payload", "_rescued", "_malformed", "_window")} == {"string"}
        assert types["_source"] == WHERE
    found = both.collect()
    assert ids_by_window(found) == {key: sorted(row["id"] for row in content[key]) for key in (day(1), day(3))}
    assert ids_by_window(one.collect()) == {day(2): sorted(row["id"] for row in content[day(2)])}
    assert none.collect() == []
    assert len({row["_source"] for row in found}) == len(found)
    assert {row["_malformed"] for row in found} == {None}
    assert all(row["_raw"]["id"] in row["_payload"] for row in found)
    raw = {row["_raw"]["id"]: row["_raw"] for row in found}
    assert {id: raw[id]["name"] for id in (row["id"] for row in ODD)} == {row["id"]: row["name"] for row in ODD}
    assert {row["_raw"]["nowhere"] for row in found} == {None}
    rescued = {row["_raw"]["id"]: json.loads(row["_rescued"] or "{}").get("extra") for row in found}
    assert {id: value for id, value in rescued.items() if value is not None} == {"full": "more"}


def test_runs_with_all_checks_load_a_partition_and_a_range(case: Case, spark_settings: Settings) -> None:
    content = content_of(case)
    case.fill(content)

    def items(changes: DataFrame) -> DataFrame:
        return changes

    declared = incremental_asset(
        partitions_def=case.partitions_def,
        source=case.source(),
        contract=Everything,
        changes=case.changes,
        quarantine=Quarantine(max_share=0.5),
        freshness=Freshness(within=timedelta(hours=1)),
    )
    with dg.DagsterInstance.ephemeral() as instance:
        watched = Watched(case.place.folder, spark_settings, instance, [declared(items)])
        watched.load(day(1))
        watched.load(day(2), day(4))
        table = Loaded(case.place.spark, watched.table, watched.lake, {})
        assert table.rows() == folded(content.values())


def ids_by_window(rows: Iterable[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["_window"], []).append(row["_raw"]["id"])
    return {key: sorted(ids) for key, ids in found.items()}


def test_the_table_is_what_the_source_holds_whatever_the_loads_and_what_the_source_does_meanwhile(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = content_of(case)
    case.fill(content)
    table = table_of(case)
    before, amid = hooks(case, monkeypatch)

    odd = table.load(3)
    assert table.rows() == folded([content[day(3)]])
    [[reasons, payload, source]] = table.log("rejected", "_reasons", "_payload", "_source")
    assert reasons == ["small: '3000000000' is not int"]
    assert "unknown" in payload and "3000000000" in payload
    assert source["file"] and source["row"] is not None

    context = table.context()
    rest = windows(case, [1, 2, 4])
    done = load_first_windows(context, rest, lambda ws: {w.key for w in ws})
    assert {report.window.key for reports in done for report in reports} == {window.key for window in rest}
    assert table.rows() == folded(content.values())

    files = table.files()
    table.replay(odd)
    table.load(1)
    assert table.files() == files, "what was loaded is loaded again, and no data file is written"

    if case.can_rewrite:
        end = [row("z", 3)]
        case.rewrite(day(2), [row("x", 1), row("y", 1)])
        before.append(lambda: case.rewrite(day(2), [row("x", 2), row("z", 2)]))
        amid.append(lambda: case.rewrite(day(2), end))
        load_until_the_source_stands_still(table, 2)
        assert before == amid == []
        assert table.rows() == folded((content | {day(2): end}).values())


def hooks(case: Case, patch: pytest.MonkeyPatch) -> tuple[list[Callable[[], None]], list[Callable[[], None]]]:
    """What is in them is done, once, before the source's rows are asked for, and after that before they are read."""
    before: list[Callable[[], None]] = []
    amid: list[Callable[[], None]] = []
    kind = type(case.source())
    read = kind.extract_windows

    def disturbed(*args: Any) -> DataFrame:
        while before:
            before.pop()()
        frame = read(*args)
        while amid:
            amid.pop()()
        return frame

    patch.setattr(kind, "extract_windows", disturbed)
    return before, amid


def load_until_the_source_stands_still(table: Loaded, window: int) -> None:
    for _ in range(3):
        try:
            table.load(window)
            return
        except SourceChanged as changed:
            assert changed.remedy
    raise AssertionError("it has stood still all the time")


@pytest.mark.parametrize("case", [case for case in CASES if case.can_fail], ids=lambda case: case.name, indirect=True)
def test_a_source_out_of_reach_is_said_soon_and_without_secrets_and_the_next_load_succeeds(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.fill(FIRST)
    table = table_of(case, Named)
    before, _ = hooks(case, monkeypatch)
    table.load(1)
    loaded = table.rows()

    case.fail()
    assert_fails(case, lambda: load_as_a_run_does(table, 1), transient=True)
    assert_fails(case, lambda: load_as_a_run_does(table, 2), transient=True)
    case.recover()

    before.append(case.fail_amid_reading)
    assert_fails(case, lambda: load_as_a_run_does(table, 2), transient=True)
    assert (before, table.rows()) == ([], loaded)
    case.recover()

    table.load(2)
    assert table.rows() == folded([FIRST[day(1)], FIRST[day(2)]], Named)
    if case.can_refuse:
        case.refuse()
        assert_fails(case, lambda: load_as_a_run_does(table, 4), transient=False)


@pytest.mark.parametrize("case", [case for case in CASES if case.can_hang], ids=lambda case: case.name, indirect=True)
def test_a_source_that_takes_the_call_and_says_nothing_is_given_up(case: Case) -> None:
    case.fill(FIRST)
    table = table_of(case, Named)
    case.hang()
    assert_fails(case, lambda: look(table, month(case)), transient=True)


def load_as_a_run_does(table: Loaded, window: int) -> None:
    try:
        table.load(window)
    except Exception as error:
        raise translate(error, f"items {day(window)}") from error


def assert_fails(case: Case, act: Callable[[], object], *, transient: bool) -> None:
    begun = time.monotonic()
    with pytest.raises(IncrementalLoadError) as raised:
        act()
    error = raised.value
    assert time.monotonic() - begun < ANSWERS_WITHIN
    assert (error.transient, bool(error.remedy)) == (transient, True), error
    assert re.search(case.named, str(error)), error
    assert case.secret is None or case.secret not in str(error)

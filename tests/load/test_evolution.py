"""What is told of a difference is what a load does about it, for each kind; nothing is told that no load does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Evolution, History, Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.contract import adaptation as stored_kinds
from incload_assets.contract import differences as declared_kinds
from incload_assets.contract.adaptation import STORED_KINDS, Kind
from incload_assets.contract.differences import KINDS, differences
from incload_assets.declaration.contract_of import contract_of
from incload_assets.history.contract_history import contract_history
from incload_assets.load.evolution import lake_differences
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import chain_of
from tests.support.tables import Loaded, day, item, make

TEXT, LONG = T.StringType(), T.LongType()


def model(unique: list[str] | None = None, **columns: Any) -> type[pa.DataFrameModel]:
    """A contract of a key, a sequence, and further columns: a type, or a type with options of its field."""
    columns = {"id": (TEXT, {"nullable": False}), "seq": LONG, **columns}
    typed = {name: one if isinstance(one, tuple) else (one, {}) for name, one in columns.items()}
    made: dict[str, Any] = {name: pa.Field(**{"nullable": True, **options}) for name, (_, options) in typed.items()}
    if unique:
        made["Config"] = type("Config", (), {"unique": unique})
    return type("Made", (pa.DataFrameModel,), {"__annotations__": {n: kind for n, (kind, _) in typed.items()}, **made})


def struct(*members: str) -> T.StructType:
    return T.StructType([T.StructField(name, TEXT) for name in members])


PLAIN = model(value=TEXT)
WIDEN = Evolution(widen="apply")
BY_SEQ = {"sequence_by": ["seq"]}


@dataclass(frozen=True)
class Case:
    """A declaration, and another one after it; both are options of ``make``."""

    kind: Kind
    was: dict[str, Any] = field(default_factory=dict)
    now: dict[str, Any] = field(default_factory=dict)


def of_contract(kind: Kind, was: type, now: type, **options: Any) -> Case:
    return Case(kind, {"contract": was, **options}, {"contract": now, **options})


CASES = [
    of_contract(stored_kinds.ADDED, PLAIN, model(value=TEXT, extra=T.DateType())),
    of_contract(stored_kinds.ADDED_UNSET, PLAIN, model(value=TEXT, extra=TEXT), write=Merge(partial=True)),
    of_contract(stored_kinds.DROPPED, PLAIN, model()),
    of_contract(stored_kinds.DROPPED_CONTENT, PLAIN, model(), write=Append(), changes=Changes()),
    of_contract(stored_kinds.WIDENED, model(n=T.IntegerType()), model(n=LONG)),
    of_contract(stored_kinds.WIDENED_BY_LOAD, model(n=T.IntegerType()), model(n=LONG), evolution=WIDEN),
    of_contract(stored_kinds.WIDENED_TEXT, model(n=T.FloatType()), model(n=T.DoubleType()), evolution=WIDEN),
    of_contract(
        stored_kinds.WIDENED_PLACE,
        model(n=T.IntegerType()),
        model(n=LONG),
        evolution=WIDEN,
        write=Merge(partition_by="n"),
    ),
    of_contract(stored_kinds.ADDED_NOT, PLAIN, model(value=TEXT, extra=TEXT), evolution=Evolution(add="stop")),
    of_contract(
        stored_kinds.ADDED_NOT, model(part=struct("a")), model(part=struct("a", "b")), evolution=Evolution(add="stop")
    ),
    of_contract(stored_kinds.NARROWED, model(n=LONG), model(n=T.IntegerType())),
    of_contract(stored_kinds.RETYPED, model(n=LONG), model(n=TEXT)),
    of_contract(stored_kinds.SPELLING, PLAIN, model(Value=TEXT)),
    of_contract(stored_kinds.MEMBER_ADDED, model(part=struct("a")), model(part=struct("a", "b"))),
    of_contract(stored_kinds.MEMBER_DROPPED, model(part=struct("a", "b")), model(part=struct("a"))),
    of_contract(stored_kinds.MEMBER_ORDER, model(part=struct("a", "b")), model(part=struct("b", "a"))),
    of_contract(stored_kinds.NESTED, model(parts=T.ArrayType(struct("a"))), model(parts=T.ArrayType(struct("a", "b")))),
    Case(stored_kinds.KEYS, {"keys": ["id"]}, {"changes": Changes(keys=["id", "value"], **BY_SEQ)}),
    Case(stored_kinds.PARTITIONING, {"write": Merge(partition_by="value")}, {"write": Merge()}),
    Case(stored_kinds.BUCKETS, {"write": Merge(buckets=4)}, {"write": Merge(buckets=8)}),
    Case(
        stored_kinds.BUCKET_KEYS,
        {"write": Merge(buckets=4), "changes": Changes(keys=["id", "value"], **BY_SEQ)},
        {"write": Merge(buckets=4), "changes": Changes(keys=["value", "id"], **BY_SEQ)},
    ),
    Case(stored_kinds.WRITE, {"write": Merge()}, {"write": Append(), "changes": Changes(keys=["id"])}),
    Case(stored_kinds.VERSIONS, {"write": History()}, {"write": History(valid_from="begins")}),
    Case(stored_kinds.WINDOWS, {}, {"partitions_def": dg.HourlyPartitionsDefinition("2026-01-01-00:00")}),
    Case(stored_kinds.FEED_STAYS, {"write": Merge(change_feed=True)}, {"write": Merge()}),
    Case(stored_kinds.SETTING, {}, {"changes": Changes(keys=["id"], sequence_by=["value"])}),
    of_contract(declared_kinds.RENAMED, PLAIN, model(text=TEXT)),
    of_contract(declared_kinds.LOOSENED, model(value=(TEXT, {"nullable": False})), PLAIN),
    of_contract(declared_kinds.TIGHTENED, PLAIN, model(value=(TEXT, {"nullable": False}))),
    of_contract(declared_kinds.CHECKS, PLAIN, model(value=(TEXT, {"ne": "bad"}))),
    of_contract(declared_kinds.UNIQUE, PLAIN, model(["value"], value=TEXT)),
    of_contract(declared_kinds.PERSONAL, PLAIN, model(value=(TEXT, {"metadata": {"personal": True}}))),
    Case(declared_kinds.SEQUENCE, {}, {"changes": Changes(keys=["id"], sequence_by=["seq", "value"])}),
    Case(
        declared_kinds.KEY_ORDER,
        {"changes": Changes(keys=["id", "value"], **BY_SEQ)},
        {"changes": Changes(keys=["value", "id"], **BY_SEQ)},
    ),
    Case(declared_kinds.ARGUMENTS, {"write": History(track=["value"])}, {"write": History()}),
]
BY_OTHER_TESTS = (declared_kinds.CODE, declared_kinds.NEW_TABLE, declared_kinds.NO_TABLE, stored_kinds.ANOTHER_ERA)


def told_as(case: Case) -> str:
    return case.kind.name.replace(" ", "_")


@pytest.fixture
def declare(spark: SparkSession, tmp_path: Path) -> Callable[..., Loaded]:
    def made(content: dict[str, list[Any]] | None = None, **options: Any) -> Loaded:
        return make(spark, tmp_path, content, **({"contract": PLAIN} | options))

    return made


def context(table: Loaded) -> LoadContext:
    return table.context(run_id="a-run")


@pytest.mark.parametrize("case", CASES, ids=told_as)
def test_what_is_told_of_a_difference_is_what_a_load_does(case: Case, declare: Callable[..., Loaded]) -> None:
    before = declare(**case.was)
    assert [found.kind for found, _ in lake_differences(before.table, before.lake)] == [declared_kinds.NEW_TABLE]
    ensure_tables(context(before))
    assert lake_differences(before.table, before.lake) == []
    after, versions = declare(**case.now), before.versions()

    of_lake = lake_differences(after.table, after.lake)
    of_contracts = differences(contract_of(before.table), contract_of(after.table))

    assert case.kind in [found.kind for found, _ in of_lake] + [found.kind for found in of_contracts]
    if case.kind in STORED_KINDS and case.kind != stored_kinds.SETTING:
        assert case.kind in [found.kind for found in of_contracts], "a file tells the same as the lake"
    stopping = [found for found, _ in of_lake if found.stops]
    assert bool(stopping) == any(found.stops for found in of_contracts) == (case.kind.outcome == "stops")
    if stopping:
        with pytest.raises(SchemaMismatch) as refused:
            ensure_tables(context(after))
        assert (refused.value.rule, refused.value.remedy) == (stopping[0].kind.rule, stopping[0].remedy("items"))
        assert after.versions() == versions
        return
    ensure_tables(context(after))
    applied = {place for found, place in of_lake if found.kind.outcome == "applied"}
    changed = {uri for uri, version in after.versions().items() if version != versions[uri]}
    assert (after.uri in changed) == any("table" in place for place in applied)
    assert (len(changed - {after.uri}) == 1) == any("log" in place for place in applied)
    left = [found for found, _ in lake_differences(after.table, after.lake)]
    assert [found for found in left if found.kind.outcome not in ("ignored", "validated from now on")] == []
    assert {found.kind for found in left} <= {stored_kinds.DROPPED, stored_kinds.MEMBER_ORDER, stored_kinds.FEED_STAYS}


def test_every_kind_is_among_the_cases() -> None:
    assert {case.kind for case in CASES} | {*BY_OTHER_TESTS} == {*KINDS}


def test_a_column_that_is_added_is_null_until_its_window_loads_again(declare: Callable[..., Loaded]) -> None:
    content = {day(1): [item("a", "x", 1, extra="there all along")]}
    declare(content).load(1)
    more = declare(content, contract=model(value=TEXT, extra=TEXT), code_version="2")
    ensure_tables(context(more))
    assert more.rows("id", "extra") == {("a", None)}
    more.load(1)
    assert more.rows("id", "extra") == {("a", "there all along")}


def test_a_column_that_is_dropped_stays_with_the_values_of_rows_that_are_there(declare: Callable[..., Loaded]) -> None:
    content = {day(1): [item("a", "x", 1)], day(2): [item("a", "y", 2), item("b", "y", 2)]}
    declare(content).load(1)
    fewer = declare(content, contract=model(), code_version="2")
    fewer.load(2)
    assert fewer.rows("id", "seq", "value") == {("a", 2, "x"), ("b", 2, None)}


def test_null_that_is_no_longer_allowed_is_rejected_from_now_on_and_stays_where_it_is(
    declare: Callable[..., Loaded],
) -> None:
    content = {day(n): [item(f"k{n}", None, n), *(item(f"k{n}{m}", "v", n) for m in range(5))] for n in (1, 2)}
    declare(content).load(1)
    strict = declare(content, contract=model(value=(TEXT, {"nullable": False})), code_version="2")
    assert strict.load(2).record.rejected == 1
    assert ("k1", None) in strict.rows("id", "value")
    assert strict.load(1).record.rejected == 1
    assert ("k1", None) not in strict.rows("id", "value")


def test_windows_that_were_loaded_by_other_code_are_told_until_the_newest_loads_again(
    declare: Callable[..., Loaded],
) -> None:
    content = {day(n): [item("a", "x", n)] for n in (1, 2)}
    for number in (1, 2):
        declare(content).load(number)
    other = declare(content, code_version="2")
    [(found, place)] = lake_differences(other.table, other.lake)
    assert (found.kind, found.was, found.now) == (declared_kinds.CODE, "1", "2")
    assert place == "log, window 2026-01-02"
    other.load(2)
    assert lake_differences(other.table, other.lake) == []


def test_the_audit_tells_which_run_added_columns_and_says_nothing_of_loads_that_added_none(
    declare: Callable[..., Loaded],
) -> None:
    first = declare()
    for _ in range(2):
        ensure_tables(context(first))
    assert chain_of(first.lake).entries == []
    more = declare(contract=model(value=TEXT, extra=TEXT), code_version="2")
    for _ in range(2):
        ensure_tables(context(more))
    [entry] = chain_of(first.lake).entries
    assert (entry.action, entry.table, entry.run_id) == ("contract", "items", "a-run")
    assert entry.details == {"code_version": "2", "table": "extra", "log": "extra"}


def test_the_audit_and_the_history_tell_columns_that_were_added_from_those_whose_types_were_widened(
    declare: Callable[..., Loaded],
) -> None:
    ensure_tables(context(declare(contract=model(n=T.IntegerType()))))
    wide = declare(contract=model(n=LONG, extra=TEXT), code_version="2", evolution=WIDEN)
    ensure_tables(context(wide))
    [entry] = chain_of(wide.lake).entries
    assert entry.details == {
        "code_version": "2", "table": "extra", "log": "extra", "table_widened": "n", "log_widened": "n",
    }  # fmt: skip
    [told] = [event for event in contract_history(wide.table, wide.lake) if event.place == "audit"]
    assert told.did == "columns added, types widened"
    assert told.what == "table: extra; log: extra; table widened: n; log widened: n; code version 2"


def test_an_audit_that_cannot_be_written_stops_no_load(declare: Callable[..., Loaded], tmp_path: Path) -> None:
    ensure_tables(context(declare()))
    lake, said = Lake(str(tmp_path)), list[str]()
    more = declare(contract=model(value=TEXT, extra=TEXT))
    ensure_tables(context(more))
    audit = lake.delta(f"{tmp_path}/_audit")
    assert audit is not None
    audit.delete()  # it lacks the last entry now
    last = declare(contract=model(value=TEXT, extra=TEXT, another=TEXT))
    ensure_tables(last.context(info=said.append))
    assert [line.partition(":")[0] for line in said] == ["items"]
    assert "another added, which the audit does not record" in said[0]
    assert lake_differences(last.table, last.lake) == []

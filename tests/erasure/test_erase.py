"""A person is erased from a table, its log and all that is kept beside them, and nothing brings the person back."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyarrow as arrow
import pyarrow.parquet as parquet
import pyspark.sql.types as T
import pytest
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from incload_assets.change_log.decisions import FIX, Decision, decide, decisions_in_force, rejected_row_id
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import now, window_of
from incload_assets.erasure import erase as erase_module
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erase_job import erase_job
from incload_assets.erasure.erasure import Erasure, fingerprints_of
from incload_assets.history.feed import feed_of
from incload_assets.load.fill import fill_window
from incload_assets.load.replay import replay_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo, plan_undo
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.progress.pause import pause_of
from incload_assets.sources.files.files import Files
from incload_assets.writes.append import Append
from incload_assets.writes.delete_insert import DeleteInsert
from incload_assets.writes.full_reload import FullReload
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from incload_assets.writes.snapshot import Snapshot
from tests.support.feeds import Follower
from tests.support.former_fixes import turn_into_fixes
from tests.support.guest_table import guest, house
from tests.support.tables import Item, Loaded, day, make

ANNA, BERT = "anna-mark-4711", "bert-0815"
"""The person who is erased, and another one. What belongs to the first has the mark in it, in every field."""
MARK = "mark-4711"


class Order(Item):
    """An order of a person."""

    person: T.StringType = pa.Field(nullable=True)
    state: T.StringType = pa.Field(nullable=True, isin=["open", "paid"])


def order(id: str, person: str | None, seq: int, value: str = "v", **more: Any) -> dict[str, Any]:
    given = {"id": id, "person": person, "seq": seq, "value": value, "state": "open"} | more
    return {name: given_value for name, given_value in given.items() if given_value is not None}


def key_of(window: int | str) -> str:
    return window if isinstance(window, str) else day(window)


Content = Mapping[Any, list[Any]]
"""What windows hold, by the number of a day or by partition key: records, and texts that are none."""
LATE = (order("z", ANNA, 31, f"again {MARK}"), order("h", BERT, 32))
FIELDS = ("id", "person", "seq", "value", "state", "op", "email", "note", "nested")
CONTENT: dict[int, list[Any]] = {
    1: [
        order("a", ANNA, 1, f"first {MARK}", email=f"{MARK}@example.org", nested={"phone": [MARK]}),
        order("b", BERT, 2),
        order("c", BERT, 3),
        order("d", ANNA, 4, state="no such state", note=f"rejected {MARK}"),
        '{"person": "anna-mark-4711", "torn',
    ],
    2: [
        order("a", ANNA, 11, f"second {MARK}"),
        order("e", ANNA, 12, f"only {MARK}"),
        order("c", ANNA, 13, f"taken over {MARK}"),
        order("f", BERT, 14),
    ],
    3: [order("e", None, 21, op="d"), order("f", None, 22, op="d"), order("g", BERT, 23)],
}


def without_anna(rows: list[Any]) -> list[Any]:
    """The content as if the person had never been: neither rows, nor the delete of a key that was the person's."""
    kept = [row for row in rows if not isinstance(row, str) and row.get("person") != ANNA]
    return [row for row in kept if (row["id"], row.get("op")) != ("e", "d")]


def write(landing: Path, content: Content, kind: str = "json") -> None:
    for number, rows in content.items():
        path = landing / f"{key_of(number)}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "json":
            path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
            continue
        whole = [row for row in rows if not isinstance(row, str)]
        if kind == "parquet":
            types = {name: arrow.int64() if name == "seq" else arrow.string() for name in FIELDS}
            types["nested"] = arrow.struct({"phone": arrow.list_(arrow.string())})
            parquet.write_table(arrow.Table.from_pylist(whole, arrow.schema(types)), path)
        else:
            with path.open("w", newline="") as out:
                writer = csv.DictWriter(out, FIELDS)
                writer.writeheader()
                writer.writerows(whole)
                out.write(f'torn,{ANNA},"\n' if len(whole) < len(rows) else "")


Declare = Callable[..., Loaded]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "k" * 40)


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path) -> Declare:
    """Declares a table over a landing area, by the name of the area."""

    def declare(area: str, **options: Any) -> Loaded:
        usual: dict[str, Any] = {
            "source": Files(str(tmp_path / area / "{window:%Y-%m-%d}.json")),
            "contract": Order,
            "subject": Subject("person", by="person"),
            "quarantine": Quarantine(max_share=0.9),
        }
        return make(spark, tmp_path / f"lake-{area}", **usual | options)

    return declare


def erase(table: Loaded, value: str = ANNA) -> Erasure:
    found = fingerprints_of([table.table], "person", value)
    with dg.instance_for_test() as instance:
        return Eraser(table.spark, table.lake, [table.table], "person", found).erase(instance, because="asked for")


def loaded(table: Loaded, *numbers: int | str) -> Loaded:
    for number in numbers:
        table.load(number)
    return table


def remains(root: str, mark: str = MARK) -> list[str]:
    """The files of a lake with the mark, by a reading of their own: raw bytes, and every value of Parquet files."""
    return [
        str(path) for path in sorted(Path(root).rglob("*")) if path.is_file() and any(mark in t for t in _told(path))
    ]


def _told(path: Path) -> Iterator[str]:
    yield path.read_bytes().decode(errors="ignore")
    if path.suffix == ".parquet":
        yield str(parquet.read_table(path, partitioning=None).to_pylist())


@pytest.mark.parametrize(("kind", "torn"), [("json", 1), ("csv", 1), ("parquet", 0)])
def test_a_person_is_gone_from_every_file_and_all_other_rows_stay(
    kind: str, torn: int, tmp_path: Path, declared: Declare
) -> None:
    def loaded_from(area: str) -> Loaded:
        source = Files(str(tmp_path / area / "{window:%Y-%m-%d}.") + kind)
        return loaded(declared(area, source=source), 1, 2, 3)

    write(tmp_path / "all", CONTENT, kind)
    write(tmp_path / "oracle", {number: without_anna(rows) for number, rows in CONTENT.items()}, kind)
    table, oracle = loaded_from("all"), loaded_from("oracle")
    assert remains(table.lake.root)
    made = erase(table)
    assert made.is_proven, [*made.lines()]
    found = made.tables["items"]
    assert (found.windows, found.changes, found.rejected, found.rows) == (3, 6 + torn, 1 + torn, 2)
    assert table.rows() == oracle.rows()
    assert remains(table.lake.root) == []
    assert pause_of(table.lake, "items") is None


def test_a_change_feed_has_the_person_no_more_and_a_reader_that_is_behind_gets_an_error_and_no_gap(
    tmp_path: Path, declared: Declare
) -> None:
    write(tmp_path / "all", CONTENT)
    table = loaded(declared("all", write=Merge(change_feed=True)), 1, 2)
    behind = Follower(table.uri)
    behind.check()
    table.load(3)
    assert any("_change_data" in file for file in remains(table.lake.root))
    assert erase(table).is_proven
    assert remains(table.lake.root) == []
    with pytest.raises(DeltaError, match="Invalid table version"):
        behind.follow()
    with pytest.raises(IncrementalLoadError, match=r"no longer kept.*an erasure removes both at once"):
        feed_of(table.table, table.lake, str(behind.version + 1), limit=1)
    anew = Follower.of_now(table.uri)
    write(tmp_path / "all", {4: [order("h", BERT, 32), *LATE]})
    table.load(4)
    anew.check()
    assert anew.kinds == {"insert": 1}


BY_SEQUENCE = Changes(sequence_by=["seq"], delete_when="op = 'd'")
WRITES: dict[str, dict[str, Any]] = {
    "merge": {"write": Merge()},
    "buckets": {"write": Merge(buckets=4)},
    "partial": {"write": Merge(partial=True)},
    "soft delete": {"write": Merge(soft_delete="gone")},
    "history": {"write": History()},
    "partial history": {"write": History(partial=True)},
    "snapshot": {"write": Snapshot(max_shrink=1.0), "changes": Changes(keys=["id"], sequence_by=["seq"])},
    "full reload": {"write": FullReload(max_shrink=1.0), "changes": Changes(keys=["id"])},
    "append": {"write": Append(), "changes": Changes(keys=["id"])},
    "delete insert": {"write": DeleteInsert(by=["id"]), "changes": BY_SEQUENCE},
    "key is the person's": {"changes": Changes(keys=["person"], sequence_by=["seq"], delete_when="op = 'd'")},
}


@pytest.mark.parametrize("name", WRITES)
def test_neither_loads_nor_an_undo_nor_a_replay_bring_a_person_back(
    name: str, tmp_path: Path, declared: Declare
) -> None:
    options = WRITES[name]
    before = {1: CONTENT[1][:3], 2: [*CONTENT[2], order("g", ANNA, 15, f"corrected away {MARK}")], 3: CONTENT[3]}
    write(tmp_path / "all", before)
    write(tmp_path / "oracle", {number: without_anna(rows) for number, rows in CONTENT.items()})
    table, oracle = loaded(declared("all", **options), 1, 2, 3), loaded(declared("oracle", **options), 1, 2, 3)
    write(tmp_path / "all", CONTENT)
    loaded(table, 1, 2)
    assert erase(table).landings[0] > 0
    stays_erased(table, oracle, tmp_path, CONTENT, {name: without_anna(rows) for name, rows in CONTENT.items()})


def stays_erased(
    table: Loaded,
    oracle: Loaded,
    folder: Path,
    content: Content,
    right: Content,
    *,
    value: str = ANNA,
    marks: Sequence[str] = (MARK,),
    again: int | str = 1,
    late: Sequence[Any] = LATE,
    erased: int = 4,
) -> None:
    """An undo, a release, a replay, loads and the source itself do not bring an erased person back.

    Args:
        table: The table that the person was erased from.
        oracle: The same table that never had the person.
        folder: The folder with both landing areas.
        content: What the source of the table has.
        right: What that of the other has.
        value: The person's identifier.
        marks: What only the person's records have.
        again: The window that is undone and released, and gets two more records later.
        late: These records: one of the person, and one of another.
        erased: The number of records of the person that it then has.
    """

    def is_right() -> None:
        for mark in marks:
            assert remains(table.lake.root, mark) == []
        assert table.rows() == oracle.rows()

    window = table.table.window_of(key_of(again))
    is_right()
    undo_window(table.context(), window, Undo(actor="somebody"))
    for mark in marks:
        assert remains(table.lake.root, mark) == []
    table.load(window.key, if_held="release")
    replay_window(table.context(), window)
    loaded(table, *content)
    is_right()
    write(folder / "all", {again: [*content[again], *late]})
    write(folder / "oracle", {again: [*right[again], late[1]]})
    report = loaded(oracle, again) and table.load(window.key)
    assert report.evidence.erased == erased
    assert sum(report.evidence.bins.values()) == report.evidence.rows_read
    is_right()
    assert erase(table, value).is_proven


def test_an_erasure_that_is_repeated_finds_nothing_and_changes_no_row(tmp_path: Path, declared: Declare) -> None:
    write(tmp_path / "all", CONTENT)
    table = loaded(declared("all"), 1, 2, 3)
    erase(table)
    rows = table.rows()
    again = erase(table)
    assert (again.tables["items"].changes, again.tables["items"].rows, again.is_proven) == (0, 0, True)
    assert "no row of such a person was found: the identifier has to be spelled as in the tables" in [*again.lines()]
    assert table.rows() == rows


def test_an_erasure_leaves_checkpoints_as_they_are_so_that_no_window_is_loaded_again(
    tmp_path: Path, declared: Declare
) -> None:
    write(tmp_path / "all", CONTENT)
    table = declared("all")
    reports = [table.load(number) for number in (1, 2, 3)]
    erase(table)
    versions = table.versions()
    for report in reports:
        assert not table.replay(report).ingested
    assert table.versions() == versions


def test_rows_that_are_no_longer_in_the_log_are_erased_from_the_table(tmp_path: Path, declared: Declare) -> None:
    write(tmp_path / "all", {1: [order("a", BERT, 1), order("b", BERT, 2)]})
    table = loaded(declared("all"), 1)
    table.written_by_another([("b2", f"foreign {MARK}", 9, ANNA, "open")])
    assert erase(table).is_proven
    assert table.rows("id") == {("a",), ("b",)}
    assert remains(table.lake.root) == []


def test_a_fill_after_an_erasure_counts_the_erased_records(tmp_path: Path, declared: Declare) -> None:
    class WithNote(Order):
        note: T.StringType = pa.Field(nullable=True)

    write(tmp_path / "all", {1: [order("a", ANNA, 1, note=MARK), order("b", BERT, 2, note="by hand")]})
    erase(loaded(declared("all"), 1))
    table = declared("all", contract=WithNote, code_version="2")
    report = fill_window(table.context(), window_of(table.table.partitions_def, day(1)))
    assert (report.evidence.rows_read, report.evidence.erased) == (2, 1)
    assert table.rows("id", "note") == {("b", "by hand")}
    assert remains(table.lake.root) == []


def test_what_people_decided_about_rejected_rows_of_the_person_goes_with_them_however_many_there_are(
    tmp_path: Path, declared: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase_module, "MOST_KEYS", 2)  # of the person are more rejected rows than keys
    rejected = [order(id, who, 9, state="no such state") for id, who in (("a", ANNA), ("x", BERT))]
    write(tmp_path / "all", {1: [*CONTENT[1], *rejected]})
    table = loaded(declared("all"), 1)
    log = table.spark.read.format("delta").load(table.lake.log_uri(["items"])).filter("_kind = 'rejected'")
    found = log.select("person", rejected_row_id().alias("row")).head(9)
    assert {row["person"] for row in found} >= {ANNA, BERT}
    # the values that fixes of a former version gave do not name anybody: the rows have to be found by their persons
    values, rows = [{"state": "paid"}] * len(found), [row["row"] for row in found]
    # the record of the last one is no longer in the source, nor in the log
    values, rows = [*values, {"person": ANNA}], [*rows, "0" * 64]
    made = [Decision(kind="accept", window=day(1), fingerprint="", row=row) for row in rows]
    decide(table.lake, table.table, made, audit=1)
    turn_into_fixes(table.lake, values)
    done = erase(table)
    assert (done.is_proven, done.decisions) == (True, 4)
    [left] = decisions_in_force(table.lake, table.table, [FIX])
    assert [left.row] == [row["row"] for row in found if row["person"] == BERT]
    assert remains(table.lake.root) == []


def test_a_former_landing_without_the_person_can_still_be_returned_to(tmp_path: Path, declared: Declare) -> None:
    folder = tmp_path / "all" / day(1)
    folder.mkdir(parents=True)
    table = declared("all", source=Files(str(tmp_path / "all" / "{window:%Y-%m-%d}/*.json")))
    for number, row in enumerate([order("b", BERT, 1), order("a", ANNA, 2, MARK), order("c", BERT, 3)]):
        (folder / f"{number}.json").write_text(json.dumps(row) + "\n")
        table.load(1)
    since = now()
    made = erase(table)
    assert (made.is_proven, made.landings[1]) == (True, 0)
    assert table.rows("id") == {("b",), ("c",)}
    assert plan_undo(table.table, table.lake, None, Undo(since.isoformat())) == []
    undo_window(table.context(), window_of(table.table.partitions_def, day(1)), Undo("2"))
    assert table.rows("id") == {("b",)}
    assert remains(table.lake.root) == []


def test_an_undo_to_deletes_of_the_persons_keys_counts_them_as_erased(tmp_path: Path, declared: Declare) -> None:
    write(tmp_path / "all", {1: [order("e", ANNA, 12)], 2: [order("e", None, 21, op="d"), order("b", BERT, 22)]})
    table = loaded(declared("all"), 1, 2)
    write(tmp_path / "all", {2: [order("g", BERT, 23)]})
    assert erase(loaded(table, 2)).is_proven
    undo = Undo(actor="somebody")
    report = undo_window(table.context(), window_of(table.table.partitions_def, day(2)), undo)
    assert (report.evidence.rows_read, report.evidence.erased, report.evidence.pending) == (2, 1, 0)
    assert table.rows("id") == {("b",)}


def test_the_job_of_the_ui_erases_only_after_its_confirmation(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, subject=Subject("guest", by="id")) as h:
        h.deliver(1, guest("guest-4711"), guest("guest-0815"))
        assert h.load(1) == [True]
        found = sorted(fingerprints_of([h.table], "guest", "guest-4711"))

        def run(**more: Any) -> dg.ExecuteInProcessResult:
            config = {"kind": "guest", "fingerprints": found, **more}
            return erase_job([h.table]).execute_in_process(
                instance=h.instance, resources=h.resources, run_config={"ops": {"erase_one": {"config": config}}}
            )

        with pytest.raises(IncrementalLoadError, match=rf'its field confirm is empty.*write confirm: "{found[0]}"'):
            run()
        with pytest.raises(IncrementalLoadError, match=r"erase_subject removes a guest .* names something else"):
            run(confirm="guest-4711")
        assert run(only_plan=True).success
        delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
        assert delta is not None and delta.to_pyarrow_table().num_rows == 2
        assert run(confirm=found[0]).success
        delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
        assert delta is not None and delta.to_pyarrow_table()["id"].to_pylist() == ["guest-0815"]

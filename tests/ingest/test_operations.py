"""Operation codes say of each record what it does; a record with another code never sets a row."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Files, Operations, Quarantine
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import Item, day, declared, item, make

KEYED: dict[str, Any] = {"keys": ["id"], "sequence_by": ["seq"]}
LETTERS = Operations("Op", insert=["I", None], update="U", delete="D", truncate="T", skip="before")
NUMBERS = Operations("__$operation", insert=2, update=4, delete=1, skip=3)


class Numbered(Item):
    """An item whose operation is a column of the table."""

    kind: T.IntegerType = pa.Field(nullable=False)


def of(id: str, value: str | None, seq: int, code: str | None, field: str = "Op") -> dict[str, str | None]:
    row = {name: text for name, text in item(id, value, seq).items() if name != "op"}
    return row if code is None else {**row, field: code}


def loaded(spark: SparkSession, folder: Path, rows: list[Any], **options: Any) -> Any:
    table = make(spark, folder, {day(1): rows}, quarantine=Quarantine(max_share=1.0), **options)
    table.load(1)
    return table


def test_a_code_sets_deletes_empties_or_is_skipped_and_an_unknown_one_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        of("older", "truncated", 1, "I"),
        {"seq": "2", "Op": "T"},
        of("loaded at first", "a", 3, None),
        of("changed", "a", 3, "I"),
        of("changed", "skipped", 9, "before"),
        of("changed", "b", 4, "U"),
        of("deleted", "a", 3, "I"),
        of("deleted", None, 4, "D"),
        of("changed", "lower case", 5, "u"),
        of("never", "unknown", 5, "X'; --"),
    ]
    letters = loaded(spark, tmp_path / "letters", rows, changes=Changes(**KEYED, operations=LETTERS))
    assert letters.rows() == {("loaded at first", "a", 3), ("changed", "b", 4)}
    known = "insert 'I', NULL; update 'U'; delete 'D'; truncate 'T'; skip 'before'"
    assert {reason for (reasons,) in letters.log("rejected", "_reasons") for reason in reasons} == {
        f"Op: 'u' is no operation code ({known})",
        f"Op: 'X'; --' is no operation code ({known})",
    }
    captured = [(2, "a", 1), (3, "a", 2), (4, "b", 3), (5, "c", 4), (None, "d", 5)]
    numbers = loaded(
        spark,
        tmp_path / "numbers",
        [of("k", value, seq, None if code is None else str(code), "__$operation") for code, value, seq in captured],
        changes=Changes(**KEYED, operations=NUMBERS),
    )
    assert numbers.rows() == {("k", "b", 3)}
    told = "is no operation code (insert '2'; update '4'; delete '1'; skip '3')"
    assert {reason for (reasons,) in numbers.log("rejected", "_reasons") for reason in reasons} == {
        f"__$operation: '5' {told}",
        f"__$operation: NULL {told}",
    }
    typed = loaded(
        spark,
        tmp_path / "typed",
        [of("k", "a", 1, "2", "kind"), of("gone", "a", 1, "2", "kind"), of("gone", None, 2, "1", "kind")],
        contract=Numbered,
        changes=Changes(**KEYED, operations=Operations("kind", insert=2, delete=1)),
    )
    assert typed.rows("id", "kind") == {("k", 2)}


def test_a_record_that_cannot_be_read_is_rejected_also_where_records_without_a_code_are_skipped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    folder = tmp_path / "landing" / day(1)
    folder.mkdir(parents=True)
    lines = ["{cut off", '{"id": "k", "value": "a", "seq": 1, "kind": 2}', '{"id": "k", "seq": 9}',
             '{"id": "k", "value": "b", "seq": 2, "kind": "odd"}']  # fmt: skip
    (folder / "a.json").write_text("\n".join(lines))
    table = make(
        spark, tmp_path, {}, source=Files("{landing}/{window:%Y-%m-%d}/*.json"), contract=Numbered,
        changes=Changes(**KEYED, operations=Operations("kind", insert=2, skip=None)),
        quarantine=Quarantine(max_share=1.0),
    )  # fmt: skip
    evidence = table.load(1).evidence
    assert table.rows("id", "value", "seq") == {("k", "a", 1)}
    assert (evidence.skipped, evidence.quarantined) == (1, 2)
    reasons = [reason for (found,) in table.log("rejected", "_reasons") for reason in found]
    assert sorted(reasons) == ["kind: NULL is no operation code (insert '2'; skip NULL)", "not valid JSON"]


def test_records_that_are_no_changes_are_counted_and_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    rows = [of("k", "a", 1, "u", "op"), of("k", "of a heartbeat", 2, "h", "op")]
    table = make(spark, tmp_path, {day(1): rows}, changes=Changes(**KEYED, skip_when="op = 'h'"))
    assert table.load(1).evidence.skipped == 1
    assert table.rows() == {("k", "a", 1)}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a code of two kinds": (
        {"operations": Operations("op", insert="I", delete=["D", "I"])},
        r"changes\.operations\.delete and insert both have 'I'",
    ),
    "no code that sets a row": ({"operations": Operations("op", delete="D")}, "at least one code of an insert"),
    "no field": ({"operations": Operations("", insert="I")}, "it names the field with the code"),
    "a code that is no text": (
        {"operations": Operations("op", insert=1.5)},  # type: ignore[arg-type]
        r"operations\.insert has 1\.5",
    ),
    "something else": ({"operations": "op"}, "changes.operations is 'op'"),
    "a condition beside it": (
        {"operations": Operations("op", insert="I"), "delete_when": "op = 'D'"},
        r"drop delete_when, or name the codes as delete=",
    ),
    "another condition": (
        {"operations": Operations("op", insert="I", delete="D"), "delete_when": "gone = 'true'"},
        r"drop delete_when, which is in operations",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_codes_that_do_not_say_one_thing_are_refused_when_they_are_declared(name: str) -> None:
    given, told = WRONG[name]
    with pytest.raises(DeclarationError, match=told):
        declared(changes=Changes(**KEYED, **given))


def test_codes_of_deletes_are_refused_where_nothing_is_deleted_by_the_name_of_their_argument() -> None:
    deletes = Operations("op", insert="I", delete="D")
    with pytest.raises(DeclarationError, match=r"changes\.operations is .* Append does not support deletes"):
        declared(write=Append(), changes=Changes(keys=["id"], operations=deletes))
    declared(write=Append(), changes=Changes(keys=["id"], operations=Operations("op", insert="I", skip="D")))


def test_another_code_is_another_version_of_the_code_and_no_code_leaves_versions_as_they_were() -> None:
    def version(operations: Operations | None) -> str | None:
        [found] = declared(changes=Changes(**KEYED, operations=operations)).code_versions_by_key.values()
        return found

    codes = (None, Operations("op", insert="I"), Operations("op", insert="I", update="U"))
    assert len({version(operations) for operations in codes}) == 3
    assert "operations" not in repr(Changes(**KEYED)) and "skip_when" not in repr(Changes(**KEYED))

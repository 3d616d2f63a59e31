"""Files of cases: what they say, and mistakes in them, each named with its line."""

from pathlib import Path

import pytest

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.trial.cases import find_cases, read_case
from incload_assets.trial.without_spark import evaluate
from tests.support.tables import Item
from tests.trial.made import case, table

TEXT = """windows:
  - window: 2026-01-01
    rows: |
      id,value,seq

      a,"x, y",1
      b,,2
expected:
  - {id: a, value: "x, y"}
"""


def test_rows_are_mappings_or_csv_with_the_line_of_each(tmp_path: Path) -> None:
    found = case(tmp_path, table(contract=Item), TEXT)
    [arrival] = found.arrivals
    assert [(row.values, row.line) for row in arrival.rows] == [
        ({"id": "a", "value": "x, y", "seq": "1"}, 6),
        ({"id": "b", "value": None, "seq": "2"}, 7),
    ]
    assert [(row.values, row.line) for row in found.expected] == [({"id": "a", "value": "x, y"}, 9)]
    assert found.columns == ["id", "value"]


def test_nested_values_are_json_and_texts_that_look_like_times_stay_texts(tmp_path: Path) -> None:
    text = "windows: [{window: 2026-01-01, rows: [{id: {at: 2026-01-05, n: 1, on: true, none: null}}]}]\nexpected: []"
    [arrival] = case(tmp_path, table(contract=Item), text).arrivals
    assert arrival.rows[0].values == {"id": '{"at": "2026-01-05", "n": 1, "on": true, "none": null}'}


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("windows:", "window:", "case.yaml:1: a case has 'window'. Rule: it has about, windows, expected, rejected"),
        ("expected:", "rejected:", "case.yaml:1: the case has no 'expected'"),
        (
            "2026-01-01",
            "2026-13-01",
            "case.yaml:2: items: there is no partition '2026-13-01'. Rule: partition keys run",
        ),
        ("- window: ", "- key: ", "case.yaml:2: a window has 'key'. Rule: it has window, rows, stops"),
        (
            "id,value,seq",
            "id,val,seq",
            "case.yaml:4: a row of the window 2026-01-01 has 'val'. Rule: it has id, value, seq",
        ),
        ("id,value,seq", "id,id,seq", "case.yaml:4: a row of the window 2026-01-01 has 'id' twice"),
        ("b,,2", "b,2", "case.yaml:7: a row of the window 2026-01-01 has 2 values. Rule: the header has 3 columns"),
        ("{id: a", "{key: a", "case.yaml:9: a row of expected has 'key'. Rule: it has id, value"),
        ('- {id: a, value: "x, y"}', "a", "case.yaml:9: a row of expected has 'a'"),
        ("expected:\n  -", "expected:\n  id:", "case.yaml:9: expected is no list"),
        ("    rows:", "    stops: maybe\n    rows:", "case.yaml:3: stops is 'maybe'. Rule: it is true or false"),
        ("windows:", "windows: [", "is no YAML"),
        (TEXT, "[]", "case.yaml:1: a case is no mapping"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_is_allowed(tmp_path: Path, was: str, now: str, message: str) -> None:
    assert was in TEXT
    with pytest.raises(IncrementalLoadError) as raised:
        case(tmp_path, table(contract=Item), TEXT.replace(was, now, 1))
    assert message in str(raised.value)


def test_an_expected_value_of_another_type_is_named_with_its_line(tmp_path: Path) -> None:
    of = case(tmp_path, table(contract=Item), TEXT.replace('value: "x, y"', "seq: one"))
    with pytest.raises(IncrementalLoadError, match=r"case.yaml:9: seq is 'one'. Rule: the table has it as bigint"):
        evaluate(of)


def test_cases_are_found_by_the_folder_of_their_table_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    for place in ("shop/tests/items/one.yaml", "tests/items/two.yml", "shop/defs.yaml", ".venv/tests/some/three.yaml"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(TEXT)
    tables = {"items": table(contract=Item)}
    found = find_cases(tmp_path, tables)
    assert sorted(str(file.relative_to(tmp_path)) for file in found) == [
        "shop/tests/items/one.yaml",
        "tests/items/two.yml",
    ]
    assert {read_case(file, tables[name]).table.name for file, name in found.items()} == {"items"}
    (tmp_path / "tests/itmes").mkdir()
    (tmp_path / "tests/itmes/three.yaml").write_text(TEXT)
    with pytest.raises(IncrementalLoadError, match=r"is of no table. Rule: .* has the name of its table: items"):
        find_cases(tmp_path, tables)

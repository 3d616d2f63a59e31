"""One word for one thing: words that the product no longer uses, and what it says instead."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.documents import PROJECT

RETIRED = {
    r"judg(?:e[ds]?|ing|e?ment)|judgeable": "validate",
    r"anew": "again",
    r"likewise": "too, as well",
    r"what became of": "outcome",
    r"those of|of which": "name the thing again",
    r"is told about|are told about|tells? nobody|told until": "report, notify, show",
    r"by hand neither|for which somebody has to ask|a column more": "say it in plain order",
}
"""Patterns of whole words, in any case, and the word to use."""
TERMS = PROJECT / "incload_assets" / "docs" / "how_a_load_works.md"


@pytest.mark.parametrize("retired", RETIRED)
def test_what_the_product_says_has_no_retired_word(retired: str) -> None:
    word = re.compile(rf"(?<![a-z])(?:{retired})(?![a-z])", re.IGNORECASE)
    said = [*(PROJECT / "incload_assets").rglob("*.py"), *(PROJECT / "incload_assets").rglob("*.md")]
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()}"
        for path in [*said, PROJECT / "README.md"]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line)
    ]
    assert not found, f"say {RETIRED[retired]!r} in place of: {found}"


def test_the_first_line_of_a_docstring_says_what_the_thing_is() -> None:
    riddle = re.compile(r"(?:What|Which|Whether|Where|Whose|Those|Who|It|Of|As)\b")
    found = [
        f"{path.relative_to(PROJECT)}: {text.splitlines()[0]}"
        for path in (PROJECT / "incload_assets").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
        and riddle.match(text := ast.get_docstring(node) or "")
    ]
    assert found == []


def test_the_words_of_a_load_have_one_meaning_each() -> None:
    rows = re.findall(r"^\| ([a-z, ]+) \| ([A-Z][^|]+) \|$", _section("Words", TERMS), re.MULTILINE)
    words = [word for row, _ in rows for word in row.split(", ")]
    assert 20 <= len(rows) <= 22
    assert len(words) == len(set(words))


def _section(title: str, page: Path) -> str:
    return page.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]

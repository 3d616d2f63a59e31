"""The page on how contracts change lists every kind of difference, as loads and commands know them."""

from incload_assets.contract.adaptation import Kind
from incload_assets.contract.differences import KINDS
from tests.support.documents import DOCS, Page

PAGE = Page(DOCS / "evolution.md")


def outcomes_table() -> str:
    """The table of the page."""
    rows = [f"| {kind.name} | {kind.outcome} | {kind.then} | {_to_do(kind)} |" for kind in KINDS]
    return "\n".join(["| Difference | A load | What happens | What to do |", "|---|---|---|---|", *rows])


def _to_do(kind: Kind) -> str:
    return kind.remedy.format(was="the table has it", table="TABLE") or "nothing"


def test_the_page_lists_every_kind_with_its_outcome() -> None:
    assert outcomes_table() in PAGE.text, outcomes_table()


def test_the_page_explains_every_outcome_and_exit_code() -> None:
    for outcome in {kind.outcome for kind in KINDS}:
        assert f"| *{outcome}* |" in PAGE.text
    for code in (0, 1, 2):
        assert f"| {code} |" in PAGE.text

"""The part of a table's declaration that its source checks."""

from collections.abc import Sequence
from dataclasses import dataclass

from incload_assets.contract.contract import Contract


@dataclass(frozen=True)
class Declared:
    """The part of a declaration that a source checks; its columns are in the contract.

    ``asked`` are fields in conditions that the contract does not have, ``way`` names the write strategy for messages,
    ``row_by_row``: changes replace and delete rows by key; ``supersedes``: each window holds the whole table.
    """

    table_name: str
    contract: Contract
    keys: Sequence[str]
    sequence_by: Sequence[str]
    delete_when: str | None
    unavailable: str | None
    asked: Sequence[str]
    way: str
    row_by_row: bool
    supersedes: bool

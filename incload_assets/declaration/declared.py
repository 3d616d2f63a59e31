"""The part of a table's declaration that its source has a say in."""

from collections.abc import Sequence
from dataclasses import dataclass

from incload_assets.contract.contract import Contract


@dataclass(frozen=True)
class Declared:
    """A declaration as far as a source looks at it; its columns are in the contract.

    Args:
        table_name: For messages.
        contract: Of the table.
        keys, sequence_by, delete_when, unavailable: As in ``Changes``.
        asked: Fields that conditions ask for and the contract does not have.
        way: Name of the way of writing, for messages.
        row_by_row: Whether changes replace and delete rows by key.
        supersedes: Whether a window holds all of the table.
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

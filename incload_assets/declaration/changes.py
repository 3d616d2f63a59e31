"""The declaration of a table's changes: their key, their order and the conditions that classify them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from incload_assets.declaration.field_types import as_columns
from incload_assets.declaration.operations import Operations

CODED = {"delete_when": "delete", "truncate_when": "truncate", "skip_when": "skip"}
"""The conditions that operation codes state, and the kind of operation of each."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The key, the order and the classifying conditions of a table's changes.

    Args:
        keys: Columns that identify a row of the table; write strategies that replace whole scopes need none.
        sequence_by: Columns that order the changes of one key, most significant first; NULL is older than any value.
            Required if the write strategy compares the age of changes to one key.
        delete_when: SQL condition that marks a change as a delete. It may name any column read from the source (fields
            outside the contract are strings) and must not depend on the time of the query. NULL counts as false.
            None: the source never deletes.
        truncate_when: SQL condition that marks a truncate: a change without a key that deletes every row of a smaller
            sequence than its own.
        snapshot_when: SQL condition that marks a row of a full extract. All rows of an extract have the same value in
            the first column of ``sequence_by``: the source's position when the extract was taken. The row is an
            upsert; a key that the extract lacks is deleted, if all its changes are older than the extract.
        unavailable: Text that the source writes in place of a value that it does not have (Debezium writes
            ``__debezium_unavailable_value`` for large values that an update did not change). The column keeps its old
            value.
        moved_when: SQL condition that marks an upsert which gives a row a new key. Its unavailable values are taken
            from the row whose delete has the same sequence, so no other two changes of the source may share a
            sequence. None: unavailable values of such an upsert stay unknown.
        skip_when: SQL condition that marks a record that is no change of the table: it is counted and not kept.
        operations: The operation codes of a change feed. They take the place of ``delete_when``, ``truncate_when`` and
            ``skip_when``, and a record with an unknown code is rejected.

    Example:
        >>> Changes(keys=["order_id"], sequence_by=["updated_at"], delete_when="op = 'd'").keys
        ('order_id',)
    """

    keys: Sequence[str] = ()
    sequence_by: Sequence[str] = ()
    delete_when: str | None = None
    truncate_when: str | None = None
    snapshot_when: str | None = None
    unavailable: str | None = None
    moved_when: str | None = None
    # neither is in the text of older declarations, from which versions of code are made
    skip_when: str | None = field(default=None, repr=False)
    operations: Operations | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("keys", "sequence_by"):
            object.__setattr__(self, name, as_columns(getattr(self, name)))
        if isinstance(self.operations, Operations):
            for name, kind in CODED.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, self.operations.condition(kind))

    def declared_by(self, condition: str) -> str:
        """The argument that declares a condition: its own, or ``operations``."""
        kind = CODED.get(condition)
        coded = self.operations.condition(kind) if self.operations and kind else None
        return "operations" if coded and coded == getattr(self, condition) else condition

    @property
    def empties(self) -> bool:
        """True if a change can delete everything older than itself."""
        return self.truncate_when is not None or self.snapshot_when is not None

"""The declaration of a table's changes: their key, their order and the conditions that classify them."""

from collections.abc import Sequence
from dataclasses import dataclass

from incload_assets.declaration.field_types import as_columns


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

    def __post_init__(self) -> None:
        for name in ("keys", "sequence_by"):
            object.__setattr__(self, name, as_columns(getattr(self, name)))

    @property
    def empties(self) -> bool:
        """True if a change can delete everything older than itself."""
        return self.truncate_when is not None or self.snapshot_when is not None

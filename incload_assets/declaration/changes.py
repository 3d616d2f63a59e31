"""What a change is: its key, its order and the conditions that classify it."""

from collections.abc import Sequence
from dataclasses import dataclass

from incload_assets.declaration.field_types import as_columns


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a change is.

    Args:
        keys: Columns that identify a row of the table; ways of writing that go by whole scopes need none.
        sequence_by: Columns that order the changes of one key, most significant first; NULL is older than any value.
            Needed where changes of one key are told older from newer.
        delete_when: SQL condition on the columns read from the source (fields outside the contract are strings there)
            that marks a change as a delete, by what the change says and not by when it is asked. NULL counts as false.
            None: the source never deletes.
        truncate_when: Likewise, for a change without a key that deletes all rows of a smaller sequence than its own.
        snapshot_when: Likewise, for a row of a complete extract, whose rows all have the same value in the first column
            of ``sequence_by``: the source's position when it was taken. It is an upsert; and keys that the extract
            lacks are deleted, if all that is known of them is older.
        unavailable: Text that a source puts where it does not know a value (Debezium writes
            ``__debezium_unavailable_value`` for large values that an update left alone): the column keeps what it had.
        moved_when: SQL condition that marks an upsert which gives a row a new key, if it leaves values unavailable:
            they are those of the row whose delete has the same sequence. That asks for a sequence that no two changes
            of the source share but such two. None: such values are not known.

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
        """Whether a row of the log can delete everything that is older than it."""
        return self.truncate_when is not None or self.snapshot_when is not None

"""Check that a file has the columns of its table; a first line that is not a header would give rows of NULLs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from incload_assets.platform.errors import SourceUnreadable

_SHOWN = 10
"""Largest number of names in a message."""


@dataclass(frozen=True)
class FileColumns:
    """The names that a header or a schema must have: one of ``known``, and all of ``required()``, which is costly."""

    table_name: str
    known: Sequence[str]
    required: Callable[[], Collection[str]] = frozenset

    def check(self, place: str, found: Collection[str]) -> None:
        """Refuses a file that lacks required columns; ``place`` is the file, or its header, for the message.

        No other names are shown than a column's in another case: if the first line is no header, its names are values.
        """
        lacking = [name for name in self.known if name not in found]
        if not lacking:
            return
        if len(lacking) < len(self.known):
            required = self.required()
            lacking = [name for name in lacking if name in required]
        if not lacking:
            return
        columns = ", ".join(map(repr, lacking[:_SHOWN])) + (", ..." if len(lacking) > _SHOWN else "")
        fault = "has none of the contract's columns" if len(lacking) == len(self.known) else "lacks columns"
        folded = {name.casefold(): name for name in found}
        alike = [f"{folded[name.casefold()]!r} is not {name!r}" for name in lacking if name.casefold() in folded]
        raise SourceUnreadable(
            f"{self.table_name}: {place} {fault}: none of its {len(found)} names is {columns}"
            + (f" ({', '.join(alike[:_SHOWN])})" if alike else ""),
            rule="a column is identified by its name, including case, and every row needs its key, its sequence and "
            "the columns that are not nullable",
            remedy="write the file again with the contract's names in its header, or add its names to the contract",
        )

"""Whether a file has the columns of its table at all: a header that is none would make rows of NULLs, or none."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from resources.errors import SourceUnreadable

_SHOWN = 10
"""Names that a message shows."""


@dataclass(frozen=True)
class FileColumns:
    """The names that a file with a header, or with a schema, is held against.

    Args:
        table_name: For messages.
        known: Those of the contract; a file has one of them at least.
        required: Those without which none of its records can become a row; asked only where a file lacks some.
    """

    table_name: str
    known: Sequence[str]
    required: Callable[[], Collection[str]] = frozenset

    def check(self, place: str, found: Collection[str]) -> None:
        """Refuse a file that lacks what it has to have.

        The message tells no other name of the file than one that differs from a column in case: where the first line
        is no header, these are values.

        Args:
            place: The file, or its header, for the message.
            found: The names that it has.

        Raises:
            SourceUnreadable: It has none of the known names, or not all of those required.
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
        which = "none of the contract's columns" if len(lacking) == len(self.known) else "not all columns"
        folded = {name.casefold(): name for name in found}
        alike = [f"{folded[name.casefold()]!r} is not {name!r}" for name in lacking if name.casefold() in folded]
        raise SourceUnreadable(
            f"{self.table_name}: {place} has {which}: of its {len(found)} names none is {columns}"
            + (f" ({', '.join(alike[:_SHOWN])})" if alike else ""),
            rule="a column is known by its name, upper and lower case are different, and a row cannot do without its"
            " key, its sequence and what is not nullable",
            remedy="write the file again with the contract's names in its header, or take them into the contract",
        )

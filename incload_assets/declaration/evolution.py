"""The changes that a load may make to an existing table after its contract has changed; fields of no interest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from incload_assets.contract.contract import Contract
from incload_assets.contract.nested_json import holds_struct
from incload_assets.declaration.field_types import as_columns
from incload_assets.platform.errors import DeclarationError

Applied = Literal["apply", "stop"]
Unknown = Literal["rescue", "stop"]
_SET = re.compile(r"\[(!?)(\]?[^\]]*)\]")


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """The consequences of a contract, or a source, that has other columns than before.

    Args:
        add: A column that the contract has and the table lacks. ``apply``: the load adds it. ``stop``: the load fails.
            None: ``apply``; if ``widen`` is left out, too, as ``INCLOAD_EVOLUTION`` says.
        widen: A column that the contract declares as a wider type. ``apply``: the load rewrites table and log once.
            ``stop``: the load fails. None: ``stop``; if ``add`` is left out, too, as ``INCLOAD_EVOLUTION`` says.
        unknown: A field of the source that the contract does not declare. ``rescue``: it is kept beside the row.
            ``stop``: the load fails.
        ignore: Names of such fields that are not reported and stop no load, or patterns as in :mod:`fnmatch`, where
            upper and lower case differ: ``*`` any text, ``?`` one character, ``[abc]`` and ``[!abc]``. They are rescued
            like the others.

    Example:
        >>> Evolution(widen="apply").settled("stop").add
        'apply'
        >>> Evolution(ignore=["utm_*", "debug"]).ignores("utm_source")
        True
    """

    add: Applied | None = None
    widen: Applied | None = None
    unknown: Unknown = "rescue"
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore", as_columns(self.ignore))

    def settled(self, of_all: Applied | None) -> "Evolution":
        """This evolution with what it leaves out.

        Args:
            of_all: The setting for all tables, which counts if neither ``add`` nor ``widen`` is declared; None: there
                is no such setting.
        """
        if self.add is None and self.widen is None and of_all is not None:
            return replace(self, add=of_all, widen=of_all)
        return replace(self, add=self.add or "apply", widen=self.widen or "stop")

    @property
    def ignored(self) -> str:
        """A regular expression of the names in ``ignore``, the same in Python and in Java; empty if there is none."""
        return rf"\A(?s:{'|'.join(map(_expression, self.ignore))})(?!(?s:.))" if self.ignore else ""

    def ignores(self, name: str) -> bool:
        """True if a field is named in ``ignore``."""
        return bool(self.ignore) and re.search(self.ignored, name) is not None

    def validate(self, table_name: str, contract: Contract) -> None:
        """Checks the names in ``ignore``.

        Raises:
            DeclarationError: One of them is empty or no pattern, or names a column of which nothing is ignored.
        """
        for name in self.ignore:
            if not _is_pattern(name):
                raise DeclarationError(
                    f"{table_name}: evolution.ignore has {name!r}",
                    rule="it has names of the source's fields, or patterns of such names",
                    remedy='write ignore=["utm_*"]',
                )
            if name in contract.names and not holds_struct(contract.type_of(name)):
                raise DeclarationError(
                    f"{table_name}: evolution.ignore has {name!r}, a column of {contract.model_name}",
                    rule="fields outside the contract are ignored; what a column's type refuses is always reported",
                    remedy=f"remove {name!r} from ignore, or from {contract.model_name}",
                )


def _is_pattern(name: str) -> bool:
    try:
        return bool(re.compile(_expression(name)).pattern)
    except re.error:  # a range such as [z-a]
        return False


def _expression(pattern: str) -> str:
    """A regular expression for a pattern of :mod:`fnmatch`, whose own translation Java does not read."""
    text, place = "", 0
    while place < len(pattern):
        found = _SET.match(pattern, place)
        if found is not None:
            members = re.sub(r"([\\\[\]^&~])", r"\\\1", found[2])
            text += f"[{'^' if found[1] else ''}{members}]"
            place = found.end()
        else:
            text += {"*": ".*", "?": "."}.get(pattern[place]) or re.escape(pattern[place])
            place += 1
    return text

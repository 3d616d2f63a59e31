"""Operation codes: what each record of a change feed does, by the value of one of its fields."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from incload_assets.declaration.field_types import as_columns
from incload_assets.platform.errors import DeclarationError

Code = str | int | None
KINDS = ("insert", "update", "delete", "truncate", "skip")


@dataclass(frozen=True)
class Operations:
    """The operation codes of a change feed: a record with any other code is rejected, and never taken for an upsert.

    Each argument but the first is a code or several, as the feed writes them: texts, or numbers, compared as texts.
    None stands for a record without a code, which rows of an initial load may be.

    Args:
        column: The field that has the code; the contract need not have it.
        insert: Codes of new rows. A key that has a row gets the new one, if it is newer.
        update: Codes of changed rows; a key without a row gets one. Inserts and updates do the same.
        delete: Codes of deletes.
        truncate: Codes of changes without a key that delete every row of a smaller sequence than their own.
        skip: Codes of records that are no changes, such as an update's row before it: counted, not kept.

    Example:
        >>> Operations("__$operation", insert=2, update=4, delete=1, skip=3).condition("delete")
        "CAST(`__$operation` AS STRING) IN ('1')"
    """

    column: str
    insert: Sequence[Code] = ()
    update: Sequence[Code] = ()
    delete: Sequence[Code] = ()
    truncate: Sequence[Code] = ()
    skip: Sequence[Code] = ()

    def __post_init__(self) -> None:
        for kind in KINDS:
            object.__setattr__(self, kind, _as_codes(getattr(self, kind)))

    def condition(self, *kinds: str) -> str | None:
        """The SQL condition that a record's code is of one of these kinds; None if they have no code."""
        codes = [code for kind in kinds for code in getattr(self, kind)]
        column = exp.column(self.column, quoted=True).sql("spark")
        said = ", ".join(exp.Literal.string(str(code)).sql("spark") for code in codes if code is not None)
        parts = [f"CAST({column} AS STRING) IN ({said})"] if said else []
        parts += [f"{column} IS NULL"] if None in codes else []
        return " OR ".join(parts) or None

    @property
    def codes(self) -> tuple[Code, ...]:
        """All codes."""
        return tuple(code for code, _ in self._codes())

    @property
    def known(self) -> str:
        """The codes by kind, for people."""
        told = {kind: getattr(self, kind) for kind in KINDS}
        return "; ".join(
            f"{kind} {', '.join('NULL' if code is None else repr(code) for code in codes)}"
            for kind, codes in told.items()
            if codes
        )

    def validate(self, table_name: str) -> None:
        """Refuses codes of two kinds, codes that are no texts, and a feed whose records never set a row."""
        said: dict[Code, str] = {}
        for code, kind in self._codes():
            place = f"{table_name}: changes.operations.{kind}"
            if not (code is None or isinstance(code, str)):
                raise DeclarationError(
                    f"{place} has {code!r}", rule="a code is a text, a number or None", remedy=f"write {kind}='d'"
                )
            if (other := said.setdefault(code, kind)) != kind:
                raise DeclarationError(
                    f"{place} and {other} both have {code!r}",
                    rule="a code says one thing of a record",
                    remedy=f"drop it from one of them: {self.known}",
                )
        if not self.column or not (self.insert or self.update):
            raise DeclarationError(
                f"{table_name}: changes.operations is {self!r}",
                rule="it names the field with the code, and at least one code of an insert or update",
                remedy='write for example Operations("op", insert="I", update="U", delete="D")',
            )

    def _codes(self) -> Iterator[tuple[Any, str]]:
        for kind in KINDS:
            for code in getattr(self, kind):
                yield code, kind


def _as_codes(given: Any) -> tuple[Any, ...]:
    codes = (given,) if given is None or isinstance(given, int) else as_columns(given)
    if not isinstance(codes, tuple):
        return (codes,)  # refused with the table's name
    return tuple(str(code) if isinstance(code, int) and not isinstance(code, bool) else code for code in codes)

"""Fields that a source fills by itself, beside those of its records: of what type they are, and what they can say.

A name that is nearly one of theirs is meant to be it: no record has such a field, so that it would be NULL for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyspark.sql.types as T
from sqlglot import exp

from incload_assets.contract.contract import Contract
from resources.errors import DeclarationError

_RESERVED = ("cdc_", "kafka_")
_ALIKE = 0.9
"""From here on a name is one of them with a typo: a letter more, less or other."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In)


@dataclass(frozen=True)
class OwnField:
    """One of them.

    Args:
        kind: The type of its values; None: it may be declared as any.
        values: All that it can say, as text; empty: too many to list.
    """

    kind: T.DataType | None = None
    values: tuple[str, ...] = ()


def check_own_fields(
    table_name: str, contract: Contract, own: Mapping[str, OwnField], sequence_by: Sequence[str], asked: Sequence[str]
) -> None:
    """Refuse what a declaration says of such fields and cannot be.

    Args:
        table_name: For messages.
        contract: Of the table.
        own: By name.
        sequence_by: As declared.
        asked: Names in conditions that the contract does not have.

    Raises:
        DeclarationError: A name is not among them, though it begins or reads as theirs do; or the contract has one in a
            type that it cannot become, or by which its order is another one.
    """
    lower = {name.lower(): name for name in own}
    begins = tuple(start for start in _RESERVED if any(name.startswith(start) for name in own))
    for name in (*contract.names, *asked):
        meant = lower.get(next(iter(get_close_matches(name.lower(), lower, 1, _ALIKE)), ""))
        of_contract = name in contract.names  # which may have what the function makes, under any other name
        if name not in own and (meant or (name.lower().startswith(begins) and not of_contract)):
            place = contract.model_name if of_contract else "a condition"
            raise DeclarationError(
                f"{table_name}: {place} names {name!r}, which the source does not have",
                rule=f"the source fills the fields {', '.join(own)}, and its records have none that begins as they do",
                remedy=f"write {meant!r}" if meant else "write one of them, or another name",
            )
    for name, field in own.items():
        if name not in contract.names or field.kind is None:
            continue
        declared, as_text = contract.type_of(name), isinstance(contract.type_of(name), T.StringType)
        if not (_holds(declared, field.kind) or as_text):
            raise DeclarationError(
                f"{table_name}: {contract.model_name} has {name!r} as {declared.simpleString()}",
                rule=f"the source fills it with values of type {field.kind.simpleString()}",
                remedy=f"declare {name}: T.{field.kind.__class__.__name__}",
            )
        if as_text and name in sequence_by and not isinstance(field.kind, T.StringType):
            raise DeclarationError(
                f"{table_name}: changes.sequence_by names {name!r}, which {contract.model_name} has as a string",
                rule="texts are ordered letter by letter, by which 10 is older than 9",
                remedy=f"declare {name}: T.{field.kind.__class__.__name__}",
            )


def check_own_values(table_name: str, place: str, parsed: exp.Expr, own: Mapping[str, OwnField]) -> None:
    """Refuse a condition that compares such a field with what it never says.

    Args:
        table_name: For messages.
        place: Where the condition is declared, for example ``changes.delete_when``.
        parsed: The condition.
        own: By name.

    Raises:
        DeclarationError: Naming the field, the value and those that there are.
    """
    for comparison in parsed.find_all(*_COMPARISONS):
        sides = [side.unnest() for side in comparison.iter_expressions()]
        names = [side.name for side in sides if isinstance(side, exp.Column)]
        values = own[names[0]].values if names and names[0] in own else ()
        for side in sides if values else ():
            if isinstance(side, exp.Literal) and side.name not in values:
                raise DeclarationError(
                    f"{table_name}: {place} compares {names[0]!r} with {side.name!r}",
                    rule=f"it is one of {', '.join(map(repr, values))}, upper and lower case are different",
                    remedy="write one of these",
                )


def _holds(declared: T.DataType, kind: T.DataType) -> bool:
    """Whether values of a type can become what is declared; numbers may be declared wider or narrower."""
    numbers = (T.IntegralType, T.DecimalType)
    return declared == kind or (isinstance(declared, numbers) and isinstance(kind, numbers))

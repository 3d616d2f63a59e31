"""Fields that a source fills itself, beside the fields of its records: their types, values and checks.

A declared name that is nearly one of them is refused as a typo: no record has such a field, so it would always be NULL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyspark.sql.types as T
from sqlglot import exp

from incload_assets.contract.contract import Contract
from incload_assets.platform.errors import DeclarationError

_RESERVED = ("cdc_", "kafka_")
_ALIKE = 0.9
"""Similarity from which a name counts as a typo: one letter added, dropped or replaced."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In)


@dataclass(frozen=True)
class OwnField:
    """A field that the source fills itself, its type (None: any), and its values as text (empty: too many to list)."""

    kind: T.DataType | None = None
    values: tuple[str, ...] = ()


def check_own_fields(
    table_name: str, contract: Contract, own: Mapping[str, OwnField], sequence_by: Sequence[str], asked: Sequence[str]
) -> None:
    """Refuses names nearly like an own field's, and types that its values cannot become, or that sort them differently.

    ``asked`` are names in conditions that the contract does not have.
    """
    lower = {name.lower(): name for name in own}
    begins = tuple(start for start in _RESERVED if any(name.startswith(start) for name in own))
    for name in (*contract.names, *asked):
        meant = lower.get(next(iter(get_close_matches(name.lower(), lower, 1, _ALIKE)), ""))
        of_contract = name in contract.names  # the table's function may compute such a column under any name
        if name not in own and (meant or (name.lower().startswith(begins) and not of_contract)):
            place = contract.model_name if of_contract else "a condition"
            raise DeclarationError(
                f"{table_name}: {place} names {name!r}, which the source does not have",
                rule=f"the source fills the fields {', '.join(own)}; no field of its records starts like these",
                remedy=f"write {meant!r}" if meant else "write one of these, or another name",
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
                rule="strings are ordered letter by letter, so 10 would be older than 9",
                remedy=f"declare {name}: T.{field.kind.__class__.__name__}",
            )


def check_own_values(table_name: str, place: str, parsed: exp.Expr, own: Mapping[str, OwnField]) -> None:
    """Refuses a condition, declared at ``place``, that compares an own field with a value that it never has."""
    for comparison in parsed.find_all(*_COMPARISONS):
        sides = [side.unnest() for side in comparison.iter_expressions()]
        names = [side.name for side in sides if isinstance(side, exp.Column)]
        values = own[names[0]].values if names and names[0] in own else ()
        for side in sides if values else ():
            if isinstance(side, exp.Literal) and side.name not in values:
                raise DeclarationError(
                    f"{table_name}: {place} compares {names[0]!r} with {side.name!r}",
                    rule=f"it is one of {', '.join(map(repr, values))}; upper and lower case differ",
                    remedy="write one of these",
                )


def _holds(declared: T.DataType, kind: T.DataType) -> bool:
    """True if values of type ``kind`` can become the declared type; numbers may be declared wider or narrower."""
    numbers = (T.IntegralType, T.DecimalType)
    return declared == kind or (isinstance(declared, numbers) and isinstance(kind, numbers))

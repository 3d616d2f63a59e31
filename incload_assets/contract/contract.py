"""The contract of a table: a pandera model compiled to Spark column expressions.

pandera's own ``validate`` neither raises on PySpark frames nor reports which rows fail. The quarantine needs both, so
types, nullability and built-in checks become one array of reasons per row. What cannot be compiled is refused:

- custom checks, ``@pa.check``, ``@pa.dataframe_check`` and checks of whole columns: they receive a frame, not a row;
- ``Field(unique=True)``: uniqueness is a property of the table, ``class Config: unique = [...]``;
- options that would make pandera drop rows, warn or reformat, which is the loader's task.

``Optional[...]`` and ``required=False`` mean nullable: a table always has all its columns.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.conversion import NESTED, as_text, convert
from incload_assets.contract.instants import DATED, RULES
from incload_assets.contract.model import Field, read_model
from incload_assets.contract.nested_json import has_undeclared, holds_struct
from incload_assets.contract.protection import UNENCRYPTED, Encrypted, Protection

__all__ = ["Contract", "Field", "column_of", "compile_contract"]

SHOWN = 80
"""Largest number of characters of a value, or of a type, in a reason."""
_NULL = ("NULL is not allowed", "NULL, but it identifies the row")
_END = "\u0001"
"""Separator of reasons that are joined to one string."""


@dataclass(frozen=True)
class Contract:
    """A table's columns, types and checks, and the columns that together identify a row, if the model names any."""

    model_name: str
    fields: tuple[Field, ...]
    unique: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> dict[str, T.DataType]:
        """The type of each column."""
        return {field.name: field.data_type for field in self.fields}

    def type_of(self, column: str) -> T.DataType:
        """The type of a column."""
        return self.types[column]

    @property
    def schema(self) -> T.StructType:
        """The table's schema. Every column may be NULL, because the log also holds rejected rows and bare deletes."""
        return T.StructType(
            [
                T.StructField(f.name, f.data_type, True, {"comment": f.description} if f.description else None)
                for f in self.fields
            ]
        )

    @property
    def personal(self) -> frozenset[str]:
        """The columns with ``metadata={"personal": …}``, protected or not."""
        return frozenset(field.name for field in self.fields if field.personal)

    @property
    def in_clear(self) -> dict[str, str]:
        """Why personal columns are not protected on purpose, by column; only those for which a reason was given."""
        return {field.name: field.in_clear for field in self.fields if field.personal and field.protection is None}

    @property
    def protections(self) -> dict[str, Protection]:
        """The protections of columns, by column; columns without one are left out."""
        return {field.name: field.protection for field in self.fields if field.protection is not None}

    def typed(self, raw: Callable[[str], Column], raw_types: Mapping[str, T.DataType]) -> list[Column]:
        """One column per field, in order: the raw value as the declared type, or NULL if there is none that fits."""
        return [self._typed(field, raw, raw_types).alias(field.name) for field in self.fields]

    def type_reasons(
        self,
        raw: Callable[[str], Column],
        raw_types: Mapping[str, T.DataType],
        typed: Callable[[str], Column] | None = None,
    ) -> Column:
        """``array<string>``: a reason for each field with a raw value that cannot become the declared type."""
        reasons = []
        for field in self.fields:
            source = raw_types.get(field.name)
            if source is None or (isinstance(field.data_type, T.StringType) and isinstance(source, T.StringType)):
                continue
            value = raw(field.name)
            made = typed(field.name) if typed else self._typed(field, raw, raw_types)
            failed = value.isNotNull() & made.isNull()
            shown = as_text(value, source)
            told = field
            if self.protections and isinstance(field.data_type, NESTED):  # may have undeclared members
                told = replace(field, personal=True)
            text = reason(told, shown, f"is not {shown_type(field.data_type)}")
            if (rule := RULES.get(type(field.data_type))) is not None:
                text = F.concat(text, F.when(shown.rlike(DATED), f" ({rule})").otherwise(""))
            reasons.append(F.when(failed, text))
        return not_null(*reasons)

    def undeclared(self, raw: Callable[[str], Column], raw_types: Mapping[str, T.DataType]) -> Column | None:
        """Undeclared members of nested values as JSON by field, NULL without any; None if no row can have any."""
        found = []
        for field in self.fields:
            source = raw_types.get(field.name)
            if not holds_struct(field.data_type) or not isinstance(source, (*NESTED, T.StringType)):
                continue
            text = as_text(raw(field.name), source)
            member = F.concat(F.lit(f"{json.dumps(field.name, ensure_ascii=False)}:"), text)
            found.append(F.when(has_undeclared(text, field.data_type), member))
        if not found:
            return None
        return F.nullif(F.concat(F.lit("{"), F.array_join(not_null(*found), ","), F.lit("}")), F.lit("{}"))

    def reasons(
        self,
        only: Collection[str] | None = None,
        *,
        given: Callable[[str], Column] | None = None,
        checks: bool = True,
        validated: Callable[[str], Column] | None = None,
    ) -> Column:
        """``array<string>``: the reasons why a typed row breaks the contract; empty if it does not.

        Args:
            only: Validate these columns alone; deletes, for example, have little more than their key.
            given: From a field's name to whether the row sets it; NULL is allowed if it does not. None: all are set.
            checks: Whether the contract's checks of values are made, beside the nullability of columns.
            validated: From a protected field's name to the reason of :meth:`broken` for its value; None: not checked.
        """
        reasons = []
        for field in self.fields:
            if only is not None and field.name not in only:
                continue
            column = column_of(field.name)
            if not field.nullable:
                missing = column.isNull() if given is None else column.isNull() & given(field.name)
                reasons.append(F.when(missing, F.lit(f"{field.name}: {_NULL[0]}")))
            if isinstance(field.protection, Encrypted):
                if validated is not None:
                    told = validated(field.name)
                    reasons.append(told if checks else F.when(told.contains(UNENCRYPTED), told))
            elif not checks or not field.rules:
                continue
            elif field.protection is None:
                reasons += _broken(field, column)
            elif validated is not None:
                reasons.append(validated(field.name))
        return not_null(*reasons)

    def broken(self, name: str, value: Column) -> Column:
        """The reason why a value of a field's type breaks the field's checks; NULL if it breaks none."""
        (field,) = (field for field in self.fields if field.name == name)
        return F.nullif(F.concat_ws("; ", *_broken(field, value)), F.lit(""))

    @staticmethod
    def _typed(field: Field, raw: Callable[[str], Column], raw_types: Mapping[str, T.DataType]) -> Column:
        source = raw_types.get(field.name)
        return (
            F.lit(None).cast(field.data_type) if source is None else convert(raw(field.name), source, field.data_type)
        )


def _broken(field: Field, value: Column) -> list[Column]:
    text = as_text(value, field.data_type)
    return [F.when(~rule.holds(value), reason(field, text, rule.broken)) for rule in field.rules]


def column_of(name: str) -> Column:
    """A top-level column by its exact name, which may contain any character."""
    return F.col("`" + name.replace("`", "``") + "`")


def not_null(*texts: Column) -> Column:
    """``array<string>``: the distinct texts that are not NULL, in their order.

    ``array_compact`` is not used, because it contains a lambda, for which Spark generates no code.
    """
    return F.array_except(F.array(*texts).cast("array<string>"), F.array(F.lit(None).cast("string")))


def unless_said(of_types: Column, of_rules: Column) -> Column:
    """The reasons of rules without those that report a NULL which only comes from a failed type conversion."""
    joined = F.array_join(of_types, _END)
    seeming = (F.regexp_replace(joined, f"([^{_END}]*?): ['*][^{_END}]*", f"$1: {text}") for text in _NULL)
    others = F.array_except(of_rules, F.concat(*(F.split(texts, _END) for texts in seeming)))
    return F.when(F.size(of_types) > 0, others).otherwise(of_rules)


def reason(field: Field, text: Column, broken: str) -> Column:
    """The text of a reason: the field, its value (shortened, or masked if personal), and what is wrong with it."""
    return F.concat(F.lit(f"{field.name}: "), quoted(text, personal=field.personal), F.lit(f" {broken}"))


def quoted(text: Column, *, personal: bool = False) -> Column:
    """A value in a reason: in quotes and shortened, or masked if it is personal."""
    if personal:
        return F.lit(MASK)
    short = F.when(F.length(text) > SHOWN, F.concat(F.substring(text, 1, SHOWN - 3), F.lit("..."))).otherwise(text)
    return F.concat(F.lit("'"), short, F.lit("'"))


def shown_type(kind: T.DataType) -> str:
    """The text of a type in a reason, shortened."""
    text = kind.simpleString()
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def compile_contract(model: type[Any], table_name: str) -> Contract:
    """The compiled contract of a ``pandera.pyspark.DataFrameModel``.

    Raises:
        DeclarationError: Something is not supported; names table and field, why, and what to write instead.
    """
    fields, unique = read_model(model, table_name)
    return Contract(model.__name__, fields, unique)


MASK = "***"

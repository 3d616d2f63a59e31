"""Reads the fields of a pandera model, and refuses everything in it that a contract does not support."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyspark.sql.types as T
from pandera.engines import pyspark_engine
from pandera.pyspark import DataFrameModel

from incload_assets.contract.checks import Rule, compile_check
from incload_assets.contract.conversion import MAX_LEVELS, NESTED, ambiguous_members, levels
from incload_assets.contract.literals import Uncompilable
from incload_assets.contract.protection import Dropped, InClear, Protection
from incload_assets.platform.errors import DeclarationError


@dataclass(frozen=True)
class Field:
    """One column of a table.

    Args:
        name: Name of the column.
        data_type: The declared type.
        nullable: Whether NULL is allowed.
        personal: Whether values are masked in everything shown to people.
        description: For people.
        rules: The checks that a value other than NULL must pass.
        protection: What is kept in place of the values; None: the values themselves. Not in the ``repr``, by which
            changed code is noticed: see :attr:`Contract.protections`.
        in_clear: Why personal values stay in clear on purpose; empty: nobody has said so. Not in the ``repr``, as it
            changes nothing that is kept.
    """

    name: str
    data_type: T.DataType
    nullable: bool
    personal: bool
    description: str | None
    rules: tuple[Rule, ...]
    protection: Protection | None = dataclasses.field(default=None, repr=False)
    in_clear: str = dataclasses.field(default="", repr=False)


_KEPT = (
    T.StringType, T.BinaryType, T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType,
    T.DoubleType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
_REFUSED_OPTIONS: dict[str, tuple[Any, str, str]] = {
    # option: (accepted values, why others are refused, what to write instead)
    "dtype": (None, "it overrides the types of all fields", "declare each field's type"),
    "strict": (
        (False, "filter"),
        "an unknown field of a source is kept beside the row and is never an error",
        "leave it out: the table has exactly the declared columns",
    ),
    "drop_invalid_rows": (False, "a row that breaks the contract is quarantined and never dropped", "leave it out"),
    "from_format": (None, "the table's source reads", "leave it out"),
    "to_format": (None, "the table's write strategy writes", "leave it out"),
}


def read_model(model: type[Any], table_name: str) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """The fields of a model, and its unique columns.

    Args:
        model: A ``pandera.pyspark.DataFrameModel``.
        table_name: The table that declares the model, for messages.

    Raises:
        DeclarationError: Something in the model is not supported.
    """
    if not (inspect.isclass(model) and issubclass(model, DataFrameModel)):
        raise DeclarationError(
            f"{table_name}: the contract is {model!r}",
            rule="a contract is a class derived from pandera.pyspark.DataFrameModel",
            remedy="import pandera.pyspark as pa, and write class ...(pa.DataFrameModel)",
        )
    where = f"{table_name}: contract {model.__name__}"
    try:
        schema = model.to_schema()
        custom, whole_frame = model.__checks__, model.__root_checks__
        annotations = {name: annotation.arg for name, (annotation, _) in model.__fields__.items()}
    except Exception as error:  # pandera raises many kinds for a wrong model
        if "not understood by Engine" in str(error):
            name, kind = _unknown_type(model)
            raise DeclarationError(
                f"{where}, field {name} is of type {getattr(kind, '__name__', kind)}",
                rule=f"a table keeps {', '.join(kind.typeName() for kind in _KEPT[:-1])}, array, struct and map",
                remedy="declare T.StringType, which keeps the value as text",
            ) from error
        remedy = "write class Config: unique = [...] instead of Field(unique=True)" if "unique" in str(error) else None
        raise DeclarationError(
            f"{where} is not a valid pandera model: {error}",
            rule="a contract is a model that pandera accepts",
            remedy=remedy or "correct the model",
        ) from error
    _refuse_options(model, where)
    of_model = getattr(model.__config__, "metadata", None) or {}
    if any(get_close_matches(str(name).lower(), ["personal"]) for name in of_model):
        raise DeclarationError(
            f"{where}: Config.metadata is {of_model!r}",
            rule="personal is declared for each field; metadata of the model would not mask any",
            remedy='write pa.Field(metadata={"personal": True}) for each personal field',
        )
    for check in whole_frame:
        raise _uncheckable(where, "the frame", check.name or "a check")
    for column, checks in custom.items():
        for check in checks:
            raise _uncheckable(where, f"field {column}", check.name or "a check")
    fields = tuple(_field(where, column, annotations.get(name)) for name, column in schema.columns.items())
    _refuse_names(model, where, fields)
    return fields, _unique(where, schema.unique, {field.name: field.data_type for field in fields})


def _unknown_type(model: type[Any]) -> tuple[str, Any]:
    """The first field with a type that pandera does not support, and the type."""
    for base in reversed(inspect.getmro(model)):
        own = issubclass(base, DataFrameModel) and base is not DataFrameModel
        for name, kind in inspect.get_annotations(base).items() if own else ():
            try:
                pyspark_engine.Engine.dtype(kind)
            except TypeError:
                return name, kind
    return "?", "unknown to pandera"


def _field(where: str, column: Any, annotation: Any) -> Field:
    here = f"{where}, field {column.name}"
    if column.dtype is None:
        raise DeclarationError(
            f"{here} has no type",
            rule="each column of a table has a type",
            remedy="annotate it with a type of pyspark.sql.types",
        )
    if isinstance(annotation, T.TimestampNTZType) or annotation is T.TimestampNTZType:
        raise DeclarationError(
            f"{here} is a timestamp without time zone",
            rule="instants are stored in UTC",
            remedy="declare T.TimestampType; source values without an offset are read as UTC",
        )
    if column.regex:
        raise DeclarationError(
            f"{here} is declared with regex=True", rule="a table's columns have fixed names", remedy="name each column"
        )
    data_type = column.dtype.type
    if (depth := levels(data_type)) > MAX_LEVELS:
        raise DeclarationError(
            f"{here} is nested {depth} levels deep",
            rule=f"arrays, structs and maps are read {MAX_LEVELS} levels deep",
            remedy="declare deeper levels as T.StringType, which keeps them as JSON",
        )
    for path in ambiguous_members(data_type, column.name):
        raise DeclarationError(
            f"{here}: member {path} differs from another only by case",
            rule="Delta does not distinguish names by case",
            remedy="rename one of them",
        )
    if unknown := next((kind for kind in _plain_types(data_type) if not isinstance(kind, _KEPT)), None):
        raise DeclarationError(
            f"{here} is of type {data_type.simpleString()}",
            rule=f"a table does not keep {unknown.simpleString()}",
            remedy="declare T.StringType, which keeps it as JSON",
        )
    metadata = column.metadata or {}
    _refuse_misspelled(here, metadata)
    personal = metadata.get("personal", False)
    protection = personal if isinstance(personal, Protection) else None
    if protection is None and not isinstance(personal, bool | InClear):
        raise DeclarationError(
            f"{here}: metadata personal is {personal!r}",
            rule="it is True or InClear(because=...), which mask the values in everything shown to people; False; or "
            "Hashed(key=...), "
            "Tokenized(key=...), Encrypted(key=...), Masked(...) or Dropped(), which keep the values out of the lake",
            remedy='write pa.Field(metadata={"personal": True})',
        )
    rules = tuple(_rule(here, check, data_type) for check in column.checks)
    nullable = column.nullable or not column.required
    if protection is not None:
        _refuse_protection(here, protection, data_type, nullable=nullable)
    why, marked = personal.because if isinstance(personal, InClear) else "", personal is not False
    return Field(column.name, data_type, nullable, marked, column.description, rules, protection, in_clear=why)


def _refuse_protection(here: str, protection: Protection, data_type: T.DataType, *, nullable: bool) -> None:
    if isinstance(protection, Dropped):
        if not nullable:
            raise DeclarationError(
                f"{here} is dropped and not nullable",
                rule="a dropped column is NULL in every row",
                remedy="write pa.Field(nullable=True, ...), or remove the field from the contract",
            )
    elif not isinstance(data_type, T.StringType):
        raise DeclarationError(
            f"{here} is {data_type.simpleString()}, and its values are {type(protection).__name__.lower()}",
            rule="a token or a masked value is text",
            remedy="declare it as T.StringType, or use Dropped()",
        )


def _refuse_misspelled(here: str, metadata: Mapping[Any, Any]) -> None:
    """Refuses a misspelled ``personal``, which would leave the column's values unmasked."""
    for name in metadata:
        if name != "personal" and get_close_matches(str(name).lower(), ["personal"]):
            raise DeclarationError(
                f"{here}: metadata has {name!r}",
                rule="only the key 'personal' marks a column of personal values",
                remedy='write pa.Field(metadata={"personal": True}), or choose a key that resembles it less',
            )


def _plain_types(data_type: T.DataType) -> Iterator[T.DataType]:
    """The plain types within a type, at any depth."""
    if isinstance(data_type, T.StructType):
        for field in data_type.fields:
            yield from _plain_types(field.dataType)
    elif isinstance(data_type, T.ArrayType):
        yield from _plain_types(data_type.elementType)
    elif isinstance(data_type, T.MapType):
        yield from _plain_types(data_type.keyType)
        yield from _plain_types(data_type.valueType)
    else:
        yield data_type


def _rule(here: str, check: Any, data_type: T.DataType) -> Rule:
    if not check.ignore_na or check.raise_warning:
        option = "raise_warning=True" if check.raise_warning else "ignore_na=False"
        raise DeclarationError(
            f"{here}: check {check.name} has {option}",
            rule="a check validates values other than NULL, and a row that fails it is quarantined",
            remedy="use an asset check to warn" if check.raise_warning else "use nullable=False to rule out NULL",
        )
    try:
        return compile_check(check.name or "", check.statistics or {}, data_type)
    except Uncompilable as problem:
        raise DeclarationError(
            f"{here}: check {check.name} cannot be used: {problem.why}",
            rule="a check decides exactly, for each value by itself",
            remedy=problem.instead,
        ) from problem


def _uncheckable(where: str, place: str, name: str) -> DeclarationError:
    return DeclarationError(
        f"{where}, {place}: the custom check {name} cannot be used: it cannot be compiled to a column expression, "
        "which is needed to find which rows fail",
        rule="a contract consists of pandera's built-in checks of single fields",
        remedy="use a built-in check, or compute a boolean column in the table's function and declare it with eq=True; "
        "to test the whole table, write an asset check",
    )


def _refuse_options(model: type[Any], where: str) -> None:
    for option, (fine, why, instead) in _REFUSED_OPTIONS.items():
        value = getattr(model.__config__, option, None)
        if value != fine and not (isinstance(fine, tuple) and value in fine):
            raise DeclarationError(f"{where}: Config.{option} = {value!r}", rule=why, remedy=instead)


def _refuse_names(model: type[Any], where: str, fields: tuple[Field, ...]) -> None:
    # pandera silently ignores annotations that begin with "_"
    ignored = [
        name
        for base in inspect.getmro(model)
        if issubclass(base, DataFrameModel) and base is not DataFrameModel
        for name in inspect.get_annotations(base)
        if name.startswith("_") and not name.startswith("__")
    ]
    for name in (*ignored, *(field.name for field in fields)):
        if name.startswith("_") or not name:
            raise DeclarationError(
                f"{where}: field name {name!r}",
                rule="names that begin with an underscore are reserved for the loader",
                remedy="rename it, or give it another name with pa.Field(alias=...)",
            )
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other is not field.name:
            raise DeclarationError(
                f"{where}: fields {other} and {field.name} differ only by case",
                rule="Delta does not distinguish names by case",
                remedy="rename one of them",
            )
    if not fields:
        raise DeclarationError(
            f"{where} has no fields",
            rule="a table has the columns of its contract, and no others",
            remedy="declare the table's columns",
        )


def _unique(where: str, declared: Any, types: Mapping[str, T.DataType]) -> tuple[str, ...]:
    unique = (declared,) if isinstance(declared, str) else declared or ()
    if not isinstance(unique, list | tuple) or len(set(map(str, unique))) < len(unique):
        raise DeclarationError(
            f"{where}: Config.unique is {declared!r}",
            rule="it is a list of fields of the model, each once, whose values together identify a row",
            remedy=f"write unique = [{next(iter(types))!r}]",
        )
    for name in unique:
        kind = types.get(name) if isinstance(name, str) else None
        if kind is None or isinstance(kind, NESTED):
            of = f", which is of type {kind.simpleString()}" if kind else ""
            plain = [name for name, kind in types.items() if not isinstance(kind, NESTED)]
            raise DeclarationError(
                f"{where}: Config.unique names {name!r}{of}",
                rule=f"it names fields of the model that have plain types: {', '.join(plain)}",
                remedy="correct the name, or declare the field",
            )
    return tuple(unique)

"""The text of a table's module, with the evidence of each part as comments."""

import textwrap
from collections.abc import Iterable, Iterator

import pyspark.sql.types as T

from incload_assets.inference.inferred import Inferred, InferredColumn
from incload_assets.inference.spelled import annotation, class_name, identifier, text, texts, type_options, type_text

_WIDTH = 118


def module_of(found: Inferred) -> str:
    """The module that declares a table."""
    origin, model = found.origin, class_name(found.table)
    title = found.table.replace("_", " ").capitalize()
    imports = sorted({*origin.imports, "incremental_asset", *_used(found)}, key=_as_isort_does)
    declared = {column.name: name for column, name in _named(found.columns)}
    head = f'"""{title}, from {origin.place}; inferred from {found.rows:,} rows by incload new."""'
    lines = [
        *([head] if len(head) <= _WIDTH else [f'"""{title}, inferred from {found.rows:,} rows by incload new."""']),
        "",
        "import dagster as dg",
        "import pandera.pyspark as pa",
        *(["import pyspark.sql.types as T"] if declared else []),
        "from pyspark.sql import DataFrame",
        "",
        *_import(imports),
        "",
        "",
        *_events(found),
        f"class {model}(pa.DataFrameModel):",
        f'    """Columns of {found.table}."""',
        "",
        *_fields(found.columns),
        "",
        "",
        *asked(found.questions, ""),
        "@incremental_asset(",
        *(f"    {line}" for line in _arguments(found, model)),
        ")",
        f"def {found.table}(changes: DataFrame) -> DataFrame:",
        f'    """{description_of(found)}"""',
        "    return changes",
    ]
    return "\n".join(lines) + "\n"


def description_of(found: Inferred) -> str:
    """The description of the table, a sentence."""
    if found.keys and found.sequence:
        return f"One row per {', '.join(found.keys)}, as last changed."
    return f"{found.table.replace('_', ' ').capitalize()}."


def _used(found: Inferred) -> list[str]:
    changes = [] if found.origin.changes or not changes_of(found) else ["Changes"]
    return [*changes, found.write.partition("(")[0]]


def _as_isort_does(name: str) -> tuple[bool, str]:
    return name[0].islower(), name


def _import(names: Iterable[str]) -> list[str]:
    line = f"from incload_assets.assets import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return [line]
    return ["from incload_assets.assets import (", *(f"    {name}," for name in names), ")"]


def _events(found: Inferred) -> list[str]:
    """The source as a variable, where ``changes`` is made from it."""
    if not found.origin.changes:
        return []
    return [f"events = {found.origin.source}", "", ""]


def _named(columns: Iterable[InferredColumn]) -> Iterator[tuple[InferredColumn, str]]:
    """The columns of the contract with their names in Python."""
    taken: set[str] = set()
    for column in columns:
        if not column.left_out:
            name = identifier(column.name, taken)
            taken.add(name)
            yield column, name


def _fields(columns: tuple[InferredColumn, ...]) -> Iterator[str]:
    names = {id(column): name for column, name in _named(columns)}
    for column in columns:
        if column.left_out:
            yield from comment(
                f"{column.name!r} is left out: {column.left_out}. The log keeps its values, in _rescued", "    "
            )
            continue
        yield from comment(f"{column.name}: {column.evidence}", "    ")
        yield from asked(column.questions, "    ")
        options = [f"nullable={column.nullable}"]
        if names[id(column)] != column.name:
            options.append(f"alias={text(column.name)}")
        if column.personal:
            options.append('metadata={"personal": True}')
        if of_type := type_options(column.kind):
            options.append(f"dtype_kwargs={of_type}")
        line = f"    {names[id(column)]}: {annotation(column.kind)} = pa.Field({', '.join(options)})"
        if len(line) <= _WIDTH:
            yield line
        else:
            yield line[: line.index("pa.Field(") + len("pa.Field(")]
            yield from _option_lines(options, column)
            yield "    )"


def _option_lines(options: Iterable[str], column: InferredColumn) -> Iterator[str]:
    """The options of a field on lines of their own, and the members of a struct."""
    for option in options:
        if len(option) <= _WIDTH - 12 or not isinstance(column.kind, T.StructType):
            yield f"        {option},"
            continue
        yield "        dtype_kwargs={"
        yield '            "fields": ['
        for member in column.kind.fields:
            yield f"                T.StructField({text(member.name)}, {type_text(member.dataType)}),"
        yield "            ]"
        yield "        },"


def _arguments(found: Inferred, model: str) -> Iterator[str]:
    origin = found.origin
    yield from comment(f"windows: {origin.partitions.why}", "")
    yield f"partitions_def={origin.partitions.declaration},"
    for note in origin.notes:
        yield from comment(f"source: {note}", "")
    yield f"source={'events' if origin.changes else origin.source},"
    yield f"contract={model},"
    if found.keys_why:
        yield from comment(f"key: {', '.join(found.keys) + ': ' if found.keys else ''}{found.keys_why}", "")
    if found.sequence and found.keys:
        yield from comment(f"order: {found.sequence}: {found.sequence_why}", "")
    if found.delete_when:
        yield from comment(f"deletes: {found.delete_why}", "")
    changes = origin.changes or changes_of(found)
    if changes:
        yield f"changes={changes},"
    yield from comment(f"write: {found.write_why}", "")
    yield f"write={found.write},"


def changes_of(found: Inferred) -> str:
    """The expression of the changes; empty if the declaration needs none."""
    parts = []
    if found.keys:
        parts.append(f"keys={texts(found.keys)}")
    if found.keys and found.sequence and not found.write.startswith("Append"):
        parts.append(f"sequence_by={texts([found.sequence])}")
    if found.delete_when and found.keys and found.write.startswith("Merge"):
        parts.append(f"delete_when={text(found.delete_when)}")
    return f"Changes({', '.join(parts)})" if parts else ""


def asked(questions: Iterable[str], indent: str) -> Iterator[str]:
    """The lines of questions, as comments."""
    for question in questions:
        yield from comment(f"Question: {question}", indent)


def comment(said: str, indent: str) -> list[str]:
    """The lines of a comment."""
    begin = f"{indent}# "
    return textwrap.wrap(
        " ".join(said.split()),
        _WIDTH - 4,
        initial_indent=begin,
        subsequent_indent=f"{begin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )

"""The columns upstream that each column of a table is made of, read from the plan of the table's function.

The function is called with frames of Spark Connect, which build plans without asking any server. The plan is then read
from its end to the frames: a column is what the plan says, and not a guess by names. Where the plan has something that
this module does not know, or the function asks for more than a plan (a schema, rows), the columns are *unknown* and
left out.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal

import sqlglot
from pyspark import SparkContext
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import Read
from pyspark.sql.connect.proto import Expression, Join, Relation, SetOperation
from sqlglot import exp

from incload_assets.declaration.table import Table
from incload_assets.ingest.function_output import RECORD
from incload_assets.sources.upstream.tables import Tables

Use = Literal[
    "IDENTITY", "TRANSFORMATION", "AGGREGATION", "CONDITIONAL", "WINDOW", "FILTER", "JOIN", "GROUP_BY", "SORT"
]
"""How a column is used, in OpenLineage's words; the first three make the value, the others decide about it."""
DIRECT: tuple[Use, ...] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
SOURCE = "source"
"""The name of the one frame of a table that is not derived from others."""

_MODE = "SPARK_CONNECT_MODE_ENABLED"
_mode = Lock()


@dataclass(frozen=True, order=True)
class Origin:
    """A column upstream, and how it is used.

    Args:
        frame: The name of the function's argument; :data:`SOURCE` for a table that is not derived.
        column: The column.
        use: How it is used.
        masked: Whether only a hash of it is left.
    """

    frame: str
    column: str
    use: Use = "IDENTITY"
    masked: bool = False

    def used(self, use: Use) -> "Origin":
        """The same column, used once more: what decides stays deciding, an aggregate stays one."""
        if self.use not in DIRECT or use == "IDENTITY" or (self.use == "AGGREGATION" and use in DIRECT):
            return self
        return replace(self, use=use)


Origins = frozenset[Origin]
_NONE: Origins = frozenset()


@dataclass(frozen=True)
class ColumnLineage:
    """The origins of the columns of a table.

    Args:
        columns: Origins by column, without a column whose origins are unknown. An empty set: the value is from no
            column, as that of ``count(*)``.
        rows: Columns that decide which rows there are.
    """

    columns: Mapping[str, Origins]
    rows: Origins


def column_lineage(table: Table, upstream: Mapping[tuple[str, ...], Table]) -> ColumnLineage | None:
    """The origins of a table's columns; None if nothing is known.

    Args:
        table: The declaration.
        upstream: The tables of the code location by the parts of their keys.

    Example:
        >>> column_lineage(orders, {}).columns["order_date"]  # doctest: +SKIP
        frozenset({Origin('source', 'ordered_at', 'TRANSFORMATION')})
    """
    if isinstance(table.source, Tables):
        if not all(each.path in upstream for each in table.source.of):
            return None
        frames = {each.name: _own(each.name, upstream[each.path].schema.names) for each in table.source.of}
        function: Callable[..., Any] = table.source.function
    else:
        given = [name for name in (*table.columns, *table.control_fields) if name not in table.source.own_fields]
        frames = {SOURCE: _own(SOURCE, given)}
        frames[SOURCE].columns += [(name, _NONE) for name in (*table.source.own_fields, RECORD)]
        function = _of_one(table.function)
    try:
        with _connect_mode():
            out = _Reader(frames).relation(_plan(function, frames))
    except Exception:  # an author's function may do anything; what it does is then unknown
        return None
    known = {name: found for name, found in out.columns if found is not None}
    return ColumnLineage({name: known[name] for name in table.columns if name in known}, out.rows)


def _of_one(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda **frames: function(frames[SOURCE])


@dataclass
class _Frame:
    """What a relation returns: columns in order, those whose origins are unknown with None."""

    columns: list[tuple[str, Origins | None]]
    rows: Origins = _NONE
    aliases: dict[str, "_Frame"] = field(default_factory=dict)

    def named(self, name: str) -> Origins | None:
        """The origins of the one column of a name, as Spark compares names."""
        found = [origins for other, origins in self.columns if other.casefold() == name.casefold()]
        if len(found) != 1:
            raise _Unknown(name)
        return found[0]

    def has(self, name: str) -> bool:
        return any(other.casefold() == name.casefold() for other, _ in self.columns)

    def changed(self, changes: Mapping[str, Origins | None]) -> "_Frame":
        """With columns replaced in their places, and others added."""
        changed = {name.casefold(): origins for name, origins in changes.items()}
        kept = [(name, changed.get(name.casefold(), origins)) for name, origins in self.columns]
        return replace(self, columns=kept + [(n, o) for n, o in changes.items() if not self.has(n)])

    def deciding(self, *more: Origins) -> "_Frame":
        return replace(self, rows=self.rows.union(*more))


class _Unknown(Exception):
    """Something that this module does not know."""


def _own(frame: str, columns: Iterable[str]) -> _Frame:
    return _Frame([(name, frozenset({Origin(frame, name)})) for name in columns])


class _NoServer:
    """In place of a session, whose plans nobody executes: whatever would ask a server fails."""

    session_id = _session_id = "none"

    def __init__(self) -> None:
        self._client = self.client = self


def _plan(function: Callable[..., Any], frames: Mapping[str, _Frame]) -> Relation:
    session: Any = _NoServer()
    out = function(**{name: DataFrame(Read(name), session) for name in frames})
    if not isinstance(out, DataFrame):
        raise _Unknown(type(out).__name__)
    return out._plan.plan(session)


@contextmanager
def _connect_mode() -> Iterator[None]:
    """Makes ``pyspark.sql.functions`` build columns of Spark Connect within the block, as loads do."""
    if SparkContext._active_spark_context is not None:
        raise _Unknown("a JVM in this process, whose columns are of another kind")
    with _mode:
        before = os.environ.get(_MODE)
        os.environ[_MODE] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_MODE]


class _Reader:
    """Reads a plan.

    Args:
        frames: What the relations that are read are, by name.
    """

    def __init__(self, frames: Mapping[str, _Frame]) -> None:
        self.frames, self.by_id = frames, dict[int, _Frame]()

    def relation(self, relation: Relation) -> _Frame:
        """The columns that a relation returns."""
        kind = str(relation.WhichOneof("rel_type"))
        read = getattr(self, f"_{kind}", None)
        if read is None:
            raise _Unknown(kind)
        found: _Frame = read(getattr(relation, kind))
        self.by_id[relation.common.plan_id] = found
        return found

    def _read(self, read: Any) -> _Frame:
        return replace(self.frames[read.named_table.unparsed_identifier])

    def _same(self, relation: Any) -> _Frame:
        return self.relation(relation.input)

    _limit = _offset = _tail = _repartition = _repartition_by_expression = _hint = _sample = _same

    def _project(self, project: Any) -> _Frame:
        given = self.relation(project.input) if project.HasField("input") else _Frame([])
        return replace(given, columns=[c for each in project.expressions for c in self._outputs(each, given)])

    def _outputs(self, expression: Expression, given: _Frame) -> list[tuple[str, Origins | None]]:
        """The columns that an expression of a select becomes."""
        kind = expression.WhichOneof("expr_type")
        if kind == "unresolved_star":
            star = expression.unresolved_star
            of = self.by_id[star.plan_id] if star.HasField("plan_id") else given
            if star.unparsed_target:
                of = given.aliases[star.unparsed_target.removesuffix(".*")]
            return list(of.columns)
        names = list(expression.alias.name) if kind == "alias" else [_name_of(expression)]
        return [(name, self._known(expression, given)) for name in names]

    def _known(self, expression: Expression, given: _Frame) -> Origins | None:
        """The origins of an expression; None if they are unknown."""
        try:
            return self.origins(expression, given)
        except _Unknown:
            return None

    def _filter(self, filtered: Any) -> _Frame:
        given = self.relation(filtered.input)
        return given.deciding(_used(self.origins(filtered.condition, given), "FILTER"))

    def _with_columns(self, changed: Any) -> _Frame:
        given = self.relation(changed.input)
        return given.changed({alias.name[0]: self._known(alias.expr, given) for alias in changed.aliases})

    def _with_columns_renamed(self, renamed: Any) -> _Frame:
        given = self.relation(renamed.input)
        names = {old.casefold(): new for old, new in renamed.rename_columns_map.items()}
        names |= {each.col_name.casefold(): each.new_col_name for each in renamed.renames}
        return replace(given, columns=[(names.get(name.casefold(), name), o) for name, o in given.columns])

    def _to_df(self, renamed: Any) -> _Frame:
        given = self.relation(renamed.input)
        pairs = zip(renamed.column_names, given.columns, strict=True)
        return replace(given, columns=[(name, origins) for name, (_, origins) in pairs])

    def _drop(self, drop: Any) -> _Frame:
        given = self.relation(drop.input)
        gone = {name.casefold() for name in (*drop.column_names, *map(_name_of, drop.columns))}
        return replace(given, columns=[(name, o) for name, o in given.columns if name.casefold() not in gone])

    def _sort(self, sort: Any) -> _Frame:
        given = self.relation(sort.input)
        return given.deciding(*(_used(self.origins(each.child, given), "SORT") for each in sort.order))

    def _deduplicate(self, only: Any) -> _Frame:
        given = self.relation(only.input)
        return given.deciding(*(_used(_sure(given.named(name)), "FILTER") for name in only.column_names))

    def _subquery_alias(self, named: Any) -> _Frame:
        given = self.relation(named.input)
        return replace(given, aliases={**given.aliases, named.alias: given})

    def _aggregate(self, of: Any) -> _Frame:
        if of.HasField("pivot") or of.grouping_sets:
            raise _Unknown("pivot")
        given = self.relation(of.input)
        by = [column for each in of.grouping_expressions for column in self._outputs(each, given)]
        made = [column for each in of.aggregate_expressions for column in self._outputs(each, given)]
        return _Frame(by + made, given.rows.union(*(_used(_sure(o), "GROUP_BY") for _, o in by)), given.aliases)

    def _join(self, join: Any) -> _Frame:
        left, right = self.relation(join.left), self.relation(join.right)
        rows = left.rows | right.rows
        both = _Frame(left.columns + right.columns, rows, left.aliases | right.aliases)
        if join.HasField("join_condition"):
            rows |= _used(self.origins(join.join_condition, both), "JOIN")
        using = {name.casefold() for name in join.using_columns}
        keys = [(name, _sure(left.named(name)), _sure(right.named(name))) for name in join.using_columns]
        rows = rows.union(*(_used(one | other, "JOIN") for _, one, other in keys))
        if join.join_type in (Join.JOIN_TYPE_LEFT_SEMI, Join.JOIN_TYPE_LEFT_ANTI):
            return replace(left, rows=rows)
        full, other_side = Join.JOIN_TYPE_FULL_OUTER, Join.JOIN_TYPE_RIGHT_OUTER
        columns: list[tuple[str, Origins | None]] = [
            (name, one | other if join.join_type == full else other if join.join_type == other_side else one)
            for name, one, other in keys
        ]
        columns += [(name, o) for name, o in both.columns if name.casefold() not in using]
        return replace(both, columns=columns, rows=rows)

    def _set_op(self, of: Any) -> _Frame:
        left, right = self.relation(of.left_input), self.relation(of.right_input)
        if of.set_op_type != SetOperation.SET_OP_TYPE_UNION or (of.by_name and of.allow_missing_columns):
            raise _Unknown("set operation")
        if len(left.columns) != len(right.columns):
            raise _Unknown("union")
        others = [right.named(name) for name, _ in left.columns] if of.by_name else [o for _, o in right.columns]
        columns = [
            (name, None if one is None or other is None else one | other)
            for (name, one), other in zip(left.columns, others, strict=True)
        ]
        return _Frame(columns, left.rows | right.rows)

    def _fill_na(self, of: Any) -> _Frame:
        given = self.relation(of.input)
        return _transformed(given, of.cols or [name for name, _ in given.columns])

    def _replace(self, of: Any) -> _Frame:
        return self._fill_na(of)

    def _drop_na(self, of: Any) -> _Frame:
        given = self.relation(of.input)
        names = of.cols or [name for name, _ in given.columns]
        return given.deciding(*(_used(_sure(given.named(name)), "FILTER") for name in names))

    def origins(self, expression: Expression, given: _Frame) -> Origins:
        """The origins of an expression over a frame."""
        match expression.WhichOneof("expr_type"):
            case "literal" | "unresolved_star" | "unresolved_named_lambda_variable":
                return _NONE
            case "unresolved_attribute":
                attribute = expression.unresolved_attribute
                frame = self.by_id[attribute.plan_id] if attribute.HasField("plan_id") else given
                return _column(_parts(attribute.unparsed_identifier), frame)
            case "alias":
                return self.origins(expression.alias.expr, given)
            case "cast":
                return _used(self.origins(expression.cast.expr, given), "TRANSFORMATION")
            case "sort_order":
                return self.origins(expression.sort_order.child, given)
            case "lambda_function":
                return self.origins(expression.lambda_function.function, given)
            case "named_argument_expression":
                return self.origins(expression.named_argument_expression.value, given)
            case "unresolved_function":
                function = expression.unresolved_function
                return self._function(function.function_name.lower(), function.arguments, given)
            case "call_function":
                call = expression.call_function
                return self._function(call.function_name.lower(), call.arguments, given)
            case "common_inline_user_defined_function":
                return self._all(expression.common_inline_user_defined_function.arguments, given, "TRANSFORMATION")
            case "unresolved_extract_value":
                extract = expression.unresolved_extract_value
                return self._all([extract.child, extract.extraction], given, "TRANSFORMATION")
            case "update_fields":
                update = expression.update_fields
                parts = [update.struct_expression]
                parts += [update.value_expression] if update.HasField("value_expression") else []
                return self._all(parts, given, "TRANSFORMATION")
            case "window":
                window = expression.window
                over = [*window.partition_spec, *(each.child for each in window.order_spec)]
                return self.origins(window.window_function, given) | self._all(over, given, "WINDOW")
            case "expression_string":
                return _of_sql(expression.expression_string.expression, given)
            case other:
                raise _Unknown(other)

    def _all(self, expressions: Iterable[Expression], given: _Frame, use: Use) -> Origins:
        return _used(_NONE.union(*(self.origins(each, given) for each in expressions)), use)

    def _function(self, name: str, arguments: Sequence[Expression], given: _Frame) -> Origins:
        if name in ("when", "if"):
            last = len(arguments) - len(arguments) % 2
            asked = self._all(arguments[:last:2], given, "CONDITIONAL")
            return asked | self._all([*arguments[1::2], *arguments[last:]], given, "TRANSFORMATION")
        if name in ("max_by", "min_by"):
            by = self._all(arguments[1:], given, "CONDITIONAL")
            return self._all(arguments[:1], given, "AGGREGATION") | by
        found = self._all(arguments, given, "AGGREGATION" if name in AGGREGATES else "TRANSFORMATION")
        return frozenset(replace(each, masked=True) for each in found) if name in HASHES else found


AGGREGATES = frozenset({
    "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "avg", "bit_and", "bit_or", "bit_xor",
    "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count", "count_if", "covar_pop", "covar_samp",
    "every", "first", "first_value", "kurtosis", "last", "last_value", "listagg", "max", "mean", "median", "min",
    "mode", "percentile", "percentile_approx", "product", "skewness", "some", "std", "stddev", "stddev_pop",
    "stddev_samp", "string_agg", "sum", "sum_distinct", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
})  # fmt: skip
"""Functions of many rows; the others are functions of one."""
HASHES = frozenset({"crc32", "hash", "md5", "sha", "sha1", "sha2", "xxhash64"})
"""Functions whose value does not show their arguments."""


def _used(origins: Origins, use: Use) -> Origins:
    return frozenset(each.used(use) for each in origins)


def _sure(origins: Origins | None) -> Origins:
    if origins is None:
        raise _Unknown("an unknown column decides")
    return origins


def _transformed(frame: _Frame, names: Iterable[str]) -> _Frame:
    found = {name: frame.named(name) for name in names}
    return frame.changed({n: None if o is None else _used(o, "TRANSFORMATION") for n, o in found.items()})


def _parts(identifier: str) -> list[str]:
    """The parts of a column's name between dots, without backticks."""
    found = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", identifier)
    return [quoted.replace("``", "`") or plain for quoted, plain in found]


def _column(parts: Sequence[str], frame: _Frame) -> Origins:
    """The origins of a column, or of a field within it."""
    if len(parts) > 1 and parts[0] in frame.aliases and not frame.has(parts[0]):
        return _column(parts[1:], frame.aliases[parts[0]])
    found = _sure(frame.named(parts[0]))
    return found if len(parts) == 1 else _used(found, "TRANSFORMATION")


def _name_of(expression: Expression) -> str:
    """The name of a column that has no alias; empty if Spark makes one up."""
    kind = expression.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return _parts(expression.unresolved_attribute.unparsed_identifier)[-1]
    return _name_of(expression.cast.expr) if kind == "cast" else ""


def _of_sql(text: str, given: _Frame) -> Origins:
    """The origins of an expression in Spark's SQL."""
    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise _Unknown(text) from error
    if parsed.find(exp.Query, exp.Window, exp.Lambda):
        raise _Unknown(text)
    found: list[Origins] = []
    for column in parsed.find_all(exp.Column):
        origins = _column([part.name for part in column.parts], given)
        if _is_condition(column):
            found.append(_used(origins, "CONDITIONAL"))
        elif column.find_ancestor(exp.AggFunc):
            found.append(_used(origins, "AGGREGATION"))
        else:
            found.append(origins if column is parsed else _used(origins, "TRANSFORMATION"))
    return _NONE.union(*found)


def _is_condition(column: exp.Expr) -> bool:
    """Whether a column of SQL is in the condition of a CASE."""
    below: exp.Expr = column
    while (above := below.parent) is not None:
        if isinstance(above, exp.If) and above.this is below:
            return True
        below = above
    return False

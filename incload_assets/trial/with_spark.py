"""Evaluates a case by real loads into a lake of its own, which is removed afterwards."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.load.load import load_window
from incload_assets.platform.errors import ContractViolation
from incload_assets.platform.lake import SHADOW_FOLDER, Lake
from incload_assets.platform.sql import TIMES_IN_JSON, col
from incload_assets.trial.cases import REASON, Case
from incload_assets.trial.literal_source import LiteralSource, Record, RetainingSource
from incload_assets.trial.outcome import Outcome, Texts
from incload_assets.trial.without_spark import wrong_value


def load(case: Case, spark: SparkSession, lake: Lake, why: str = "") -> Outcome:
    """The outcome of a case by real loads; ``why`` says what needs Spark, for people.

    Raises:
        IncrementalLoadError: An expected value is none of its column's type; or an error of a load that is no stop.
    """
    folder = f"{SHADOW_FOLDER}/_tests/{uuid4().hex}"
    try:
        return _loaded(case, spark, Lake(f"{lake.root}/{folder}").followed(), why)
    finally:
        lake.remove(folder)


def _loaded(case: Case, spark: SparkSession, lake: Lake, why: str) -> Outcome:
    content: dict[str, list[Record]] = {}
    table = as_tested(case.table, content)
    expected = _expected(case, spark, table)  # first, as a wrong one needs no load
    context, stopped = LoadContext(spark, table, lake), dict[int, str]()
    for number, arrival in enumerate(case.arrivals):
        before = content.get(arrival.window.key)
        content[arrival.window.key] = [dict(row.values) for row in arrival.rows]
        try:
            load_window(context, arrival.window)
        except ContractViolation as error:
            stopped[number] = error.problem
            if before is not None:
                content[arrival.window.key] = before
    return Outcome(
        rows=_texts(_table(context), table.schema),
        expected=expected,
        rejected=_rejected(context),
        stopped=stopped,
        by=f"by Spark: {why}" if why else "by Spark",
    )


def as_tested(table: Table, content: Mapping[str, Sequence[Record]]) -> Table:
    """A table whose source is the content of a case; it keeps all windows, and personal values in clear."""
    kind = RetainingSource if table.source.retains_absent_keys else LiteralSource
    fields = tuple(replace(field, protection=None) for field in table.contract.fields)
    return replace(
        table,
        source=kind(content),
        contract=replace(table.contract, fields=fields),
        log_retention=None,
        subject=None,
    )


def _table(context: LoadContext) -> DataFrame | None:
    if context.lake.version(context.uri) is None:
        return None
    rows = context.spark.read.format("delta").load(context.lake.spark_uri(context.uri))
    held = context.table.write.open_rows
    return rows if held is None else rows.filter(col(held))


def _as_strings(table: Table) -> list[T.StructField]:
    return [T.StructField(name, T.StringType()) for name in table.schema.names]


def _expected(case: Case, spark: SparkSession, table: Table) -> list[Texts]:
    """The expected rows with the types of the table, converted as a load converts a source's texts."""
    given = spark.createDataFrame(
        [(row.line, *(row.values.get(name) for name in table.schema.names)) for row in case.expected],
        T.StructType([T.StructField("_line", T.IntegerType()), *_as_strings(table)]),
    )
    contract = replace(
        table.contract,
        fields=tuple(
            replace(table.contract.fields[0], name=field.name, data_type=field.dataType, rules=(), nullable=True)
            for field in table.schema.fields
        ),
    )
    typed = contract.typed(col, {name: T.StringType() for name in contract.names})
    made = given.select("_line", *typed)
    texts = _texts(made.orderBy("_line"), table.schema)
    for row, found in zip(case.expected, texts, strict=True):
        for field in table.schema.fields:
            if row.values.get(field.name) is not None and found[field.name] is None:
                raise wrong_value(case, row, field)
    return texts


def _texts(rows: DataFrame | None, schema: T.StructType) -> list[Texts]:
    """Rows as JSON texts; equal texts mean equal values."""
    if rows is None:
        return []
    found = rows.select(
        *(F.to_json(F.struct(col(name).alias("v")), TIMES_IN_JSON).alias(name) for name in schema.names)
    )
    return [{name: _value(row[name]) for name in schema.names} for row in found.collect()]


def _value(text: str) -> str | None:
    """The text of the value of ``{"v": …}``: that of a string without quotes, of all others as they are in JSON."""
    if text == "{}":
        return None
    inner = text.removeprefix('{"v":').removesuffix("}")
    return str(json.loads(inner)) if inner.startswith('"') else inner


def _rejected(context: LoadContext) -> list[Texts]:
    """The rejected rows that the log has, as the source had them."""
    log = context.lake.delta(context.log.uri)
    if log is None:
        return []
    keys = list(context.log.records_in(log))
    rows = context.log.read(context.spark, log.version(), keys).filter(F.col("_kind") == REJECTED)
    found = rows.select("_payload", F.array_join("_reasons", "; ").alias("reasons")).collect()
    return [{**json.loads(row["_payload"]), REASON: row["reasons"]} for row in found]

"""A source whose content is written down: what each window holds, as rows of texts."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.source import DetectRequest, Position, Shows, Source

Record = dict[str, str | None]


@dataclass(frozen=True)
class LiteralSource(Source):
    """Windows hold exactly ``content[key]``; it may be changed between loads."""

    content: Mapping[str, Sequence[Record]] = field(default_factory=dict, hash=False)
    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)

    def validate(self, table_name: str) -> None:
        """Nothing to check."""

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The positions of the windows with content: the content itself."""
        found = {w.key: self.content[w.key] for w in request.windows if w.key in self.content}
        return {
            key: Position(hashlib.sha1(json.dumps(rows).encode()).hexdigest()[:16], {"rows": rows}, f"{len(rows)} rows")
            for key, rows in found.items()
        }

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows as strings; see :meth:`Source.extract`."""
        rows: Sequence[Record] = position.detail.get("rows", [])
        raw = T.StructType([T.StructField(name, T.StringType()) for name in fields])
        present = T.StructField("_present", T.ArrayType(T.StringType()))
        schema = T.StructType([T.StructField("_raw", raw), T.StructField("_payload", T.StringType()), present])
        data = [(tuple(row.get(name) for name in fields), json.dumps(row), list(row)) for row in rows]
        return (
            spark.createDataFrame(data, schema)
            .withColumn("_rescued", F.lit(None).cast("string"))
            .withColumn("_malformed", F.lit(None).cast("string"))
            .withColumn(
                "_source",
                F.struct(
                    F.lit("literal").alias("file"),
                    F.lit(0).cast("long").alias("block"),
                    F.lit(0).cast("long").alias("row"),
                ),
            )
        )


@dataclass(frozen=True)
class RetainingSource(LiteralSource):
    """The same, where a key that a window no longer shows keeps its row, as in a query by modified time."""

    retains_absent_keys: ClassVar[bool] = True

"""Twelve tables, of every kind of source and every write strategy, declared in Python and in YAML."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import (
    Append,
    Changes,
    Debezium,
    DeleteInsert,
    Era,
    Evolution,
    Files,
    Fold,
    Freshness,
    FullReload,
    Hashed,
    History,
    InClear,
    Kafka,
    Masked,
    Merge,
    Operations,
    Overwrite,
    Quarantine,
    QueryById,
    QueryByTime,
    ReplicationSlot,
    Several,
    Slo,
    Snapshot,
    Subject,
    Unwrapped,
    incremental_asset,
)
from incload_assets.component.tables import _unchanged

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
KEYED = Changes(keys=["id"], sequence_by=["seq"])


class Row(pa.DataFrameModel):
    """The columns that most of the tables have."""

    id: T.LongType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)
    amount: Annotated[T.DecimalType, 12, 2] = pa.Field(nullable=True, ge=0)


class Person(pa.DataFrameModel):
    """A contract with everything that a column can have."""

    id: T.LongType = pa.Field(description="The customer's number")
    seq: T.TimestampType = pa.Field(nullable=False)
    email: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed(key="crm")})
    phone: T.StringType = pa.Field(nullable=True, metadata={"personal": Masked(keep=3)})
    city: T.StringType = pa.Field(nullable=True, metadata={"personal": InClear(because="needed for routes")})
    country: T.StringType = pa.Field(nullable=False, isin=["CH", "DE"], str_length={"min_value": 2, "max_value": 2})
    born: T.DateType = pa.Field(nullable=True, metadata={"personal": True}, ge=date(1900, 1, 1))
    tags: T.ArrayType(T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    address: T.StructType([T.StructField("street", T.StringType())]) = pa.Field(nullable=True)  # type: ignore[valid-type]

    class Config:
        """No two customers have one address of e-mail."""

        unique = ["email"]  # noqa: RUF012 - pandera's own form


class Event(pa.DataFrameModel):
    """The contract of change events."""

    id: T.LongType = pa.Field(nullable=False)
    cdc_sequence: T.StringType = pa.Field(nullable=False)
    born: T.DateType = pa.Field(nullable=True)


def dated(changes: DataFrame) -> DataFrame:
    """Rows with their day."""
    return changes.withColumn("day", F.coalesce("day", F.current_date()))


def in_python(row: Any = Row, person: Any = Person, event: Any = Event) -> list[dg.AssetsDefinition]:
    """The tables, declared in Python."""
    events = Debezium(Files("{landing}/cdc/{window:%Y-%m-%d}.json"), table="public.stock", keys=["id"])
    stream = Debezium(
        Kafka("shop", "shop.public.staff"), table="public.staff", keys=["id"], replica_identity="full",
        decimals="string", encodings={"born": "date"}, slot=ReplicationSlot("shop", "debezium"),
        other_tables=["public.stock"],
    )  # fmt: skip
    declared: Mapping[str, dict[str, Any]] = {
        "orders": {
            "source": Files("{landing}/orders/{window:%Y-%m-%d}/*.json", absent="empty", deleted="retract"),
            "changes": Changes(
                keys=["id"], sequence_by=["seq"], operations=Operations("op", insert=["c", None], delete="d", skip=[3])
            ),
            "write": Merge(partition_by="day", max_shrink=0.25),
            "description": "One row per order.",
            "freshness": Freshness(within=timedelta(hours=6)),
            "quarantine": Quarantine(max_share=0.05, max_rows=100, max_age=None),
            "slo": Slo(success=0.99, freshness=timedelta(minutes=2)),
            "criticality": "high",
            "key_prefix": ["shop", "sales"],
            "group_name": "sales",
            "owners": ["team:sales", "a@example.com"],
            "tags": {"tier": "one"},
            "kinds": {"spark"},
            "metadata": {"link": "here", "numbers": [1, 2]},
            "deps": [dg.AssetKey(["raw", "orders"])],
            "pool": "orders",
            "code_version": "2",
            "automation_condition": dg.AutomationCondition.eager(),
            "max_partitions_per_run": 8,
            "log_retention": timedelta(days=90),
            "interval": timedelta(seconds=30),
            "undo_retention": timedelta(0),
            "on_failed_reconciliation": "hold",
            "quarantine_retention": None,
        },
        "customers": {
            "source": QueryByTime("shop", "public.customers", modified="updated_at", lag=timedelta(minutes=1)),
            "contract": person,
            "write": Merge(buckets=16, soft_delete="is_deleted", change_feed=True),
            "changes": Changes(keys="id", sequence_by="seq", delete_when="op = 'd'"),
            "subject": Subject("customer", by="id"),
            "evolution": Evolution(add="stop", unknown="stop", ignore=["utm_*"]),
        },
        "payments": {"source": QueryById("shop", "public.payments", id="id"), "write": Append(partition_by="day")},
        "invoices": {
            "source": Files("{landing}/invoices/{window:%Y-%m-%d}.csv", delimiter=";", encoding="iso-8859-1"),
            "write": DeleteInsert(by=["id", "day"], partition_by="day"),
            "changes": Changes(sequence_by=["seq"]),
        },
        "totals": {"source": Kafka("shop", "totals", key="id", per_task=1000), "write": Fold(sums=["amount"])},
        "settings": {
            "source": Files("{landing}/settings/{window:%G-W%V}.parquet"),
            "write": FullReload(max_shrink=0.1),
            "partitions_def": dg.WeeklyPartitionsDefinition("2026-01-05", day_offset=1, timezone="Europe/Zurich"),
            "changes": Changes(),
        },
        "prices": {
            "source": Files("{landing}/prices/{window:%Y-%m-%d-%H}.json", format="json"),
            "write": History(track=["amount"], valid_from="since", partial=True),
            "partitions_def": dg.HourlyPartitionsDefinition("2026-01-01-00:00", end_offset=1),
        },
        "days": {
            "source": Files("{landing}/days/{window:%Y-%m-%d}.json"),
            "write": Overwrite(partition_by="day"),
            "changes": Changes(),
            "function": dated,
        },
        "articles": {
            "source": Unwrapped(
                Files("{landing}/articles/{window:%Y-%m}.json"), row=["after", "before"], fields={"seq": "meta.no"}
            ),
            "write": Snapshot(scope="amount > 0"),
            "partitions_def": dg.MonthlyPartitionsDefinition("2026-01-01"),
        },
        "stock": {"source": events, "contract": event, "changes": events.changes()},
        "staff": {"source": stream, "contract": event, "changes": stream.changes(truncates=False)},
        "feed": {
            "source": Several({
                "full": Files("{landing}/full/{window:%Y-%m-%d-%H}.json", absent="empty"),
                "changes": Kafka("shop", "feed", absent="empty"),
            }),
            "changes": Changes(keys=["id"], sequence_by=["seq"], snapshot_when="source_name = 'full'"),
            "partitions_def": dg.TimeWindowPartitionsDefinition(
                start="2026-02-01-00:00", fmt="%Y-%m-%d-%H:%M", cron_schedule="0 */6 * * *"
            ),
            "former_partitions": [Era(DAYS, "2026-02-01T00:00Z", Files("{landing}/{window:%Y-%m-%d}.json"))],
        },
    }  # fmt: skip
    usual = {"partitions_def": DAYS, "contract": row, "changes": KEYED}
    made = []
    for name, options in declared.items():
        function = options.get("function", _unchanged)
        options = {key: value for key, value in options.items() if key != "function"}
        made.append(incremental_asset(**usual | {"name": name} | options)(function))
    return made


IN_YAML = """\
type: incload_assets.IncrementalTable

attributes:
  defaults:
    partitions_def: {type: daily, start_date: "2026-01-01"}
    contract:
      columns:
        id: bigint
        seq: bigint
        day: date
        amount: {type: "decimal(12,2)", nullable: true, checks: {ge: 0}}
    changes: {keys: [id], sequence_by: [seq]}
  tables:
    orders:
      source: {type: files, path: "{landing}/orders/{window:%Y-%m-%d}/*.json", absent: empty, deleted: retract}
      changes: {operations: {column: op, insert: [c, null], delete: d, skip: [3]}}
      write: {type: merge, partition_by: day, max_shrink: 0.25}
      description: One row per order.
      freshness: {within: 6h}
      quarantine: {max_share: 0.05, max_rows: 100, max_age: null}
      slo: {success: 0.99, freshness: 2min}
      criticality: high
      key_prefix: [shop, sales]
      group_name: sales
      owners: [team:sales, a@example.com]
      tags: {tier: one}
      kinds: [spark]
      metadata: {link: here, numbers: [1, 2]}
      deps: [raw/orders]
      pool: orders
      code_version: "2"
      automation_condition: "{{ dg.AutomationCondition.eager() }}"
      max_partitions_per_run: 8
      log_retention: 90d
      interval: 30s
      undo_retention: 0d
      on_failed_reconciliation: hold
      quarantine_retention: null
    customers:
      source: {type: query_by_time, database: shop, table: "public.{{ name }}", modified: updated_at, lag: 1min}
      contract: tests.component.twelve.Person
      changes: {keys: id, sequence_by: seq, delete_when: "op = 'd'"}
      write: {type: merge, buckets: 16, soft_delete: is_deleted, change_feed: true}
      subject: {kind: customer, by: id}
      evolution: {add: stop, unknown: stop, ignore: [utm_*]}
    payments:
      source: {type: query_by_id, database: shop, table: public.payments, id: id}
      write: {type: append, partition_by: day}
    invoices:
      source: {type: files, path: "{landing}/invoices/{window:%Y-%m-%d}.csv", delimiter: ";", encoding: iso-8859-1}
      changes: {keys: [], sequence_by: [seq]}
      write: {type: delete_insert, by: [id, day], partition_by: day}
    totals:
      source: {type: kafka, cluster: shop, topic: totals, key: id, per_task: 1000}
      write: {type: fold, sums: [amount]}
    settings:
      partitions_def: {type: weekly, start_date: "2026-01-05", day_offset: 1, timezone: Europe/Zurich}
      source: {type: files, path: "{landing}/settings/{window:%G-W%V}.parquet"}
      changes: {keys: [], sequence_by: []}
      write: {type: full_reload, max_shrink: 0.1}
    prices:
      partitions_def: {type: hourly, start_date: "2026-01-01-00:00", end_offset: 1}
      source: {type: files, path: "{landing}/prices/{window:%Y-%m-%d-%H}.json", format: json}
      write: {type: history, track: [amount], valid_from: since, partial: true}
    days:
      source: {type: files, path: "{landing}/days/{window:%Y-%m-%d}.json"}
      changes: {keys: [], sequence_by: []}
      write: {type: overwrite, partition_by: day}
      function: tests.component.twelve.dated
    articles:
      partitions_def: {type: monthly, start_date: "2026-01-01"}
      source:
        type: unwrapped
        source: {type: files, path: "{landing}/articles/{window:%Y-%m}.json"}
        row: [after, before]
        fields: {seq: meta.no}
      write: {type: snapshot, scope: amount > 0}
    stock:
      source:
        type: debezium
        source: {type: files, path: "{landing}/cdc/{window:%Y-%m-%d}.json"}
        table: public.stock
        keys: [id]
      contract: tests.component.twelve.Event
      changes: "{{ source.changes() }}"
    staff:
      source:
        type: debezium
        source: {type: kafka, cluster: shop, topic: shop.public.staff}
        table: public.staff
        keys: [id]
        replica_identity: full
        decimals: string
        encodings: {born: date}
        slot: {database: shop, name: debezium}
        other_tables: [public.stock]
      contract: tests.component.twelve.Event
      changes: "{{ source.changes(truncates=false) }}"
    feed:
      partitions_def:
        type: time_window
        start: "2026-02-01-00:00"
        fmt: "%Y-%m-%d-%H:%M"
        cron_schedule: "0 */6 * * *"
      source:
        type: several
        sources:
          full: {type: files, path: "{landing}/full/{window:%Y-%m-%d-%H}.json", absent: empty}
          changes: {type: kafka, cluster: shop, topic: feed, absent: empty}
      changes: {snapshot_when: "source_name = 'full'"}
      former_partitions:
        - partitions_def: {type: daily, start_date: "2026-01-01"}
          until: 2026-02-01T00:00Z
          source: {type: files, path: "{landing}/{window:%Y-%m-%d}.json"}
"""

PERSON = """\
columns:
  id: {type: long, description: "The customer's number"}
  seq: timestamp
  email: {type: string, nullable: true, personal: {type: hashed, key: crm}}
  phone: {type: string, nullable: true, personal: {type: masked, keep: 3}}
  city: {type: string, nullable: true, personal: {type: in_clear, because: needed for routes}}
  country: {type: string, checks: {isin: [CH, DE], str_length: {min_value: 2, max_value: 2}}}
  born: {type: date, nullable: true, personal: true, checks: {ge: 1900-01-01}}
  tags: {type: {array: string}, nullable: true}
  address: {type: {struct: {street: string}}, nullable: true}
unique: [email]
"""
"""The contract of ``Person``."""

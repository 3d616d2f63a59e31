"""What a materialization shows a person: counts, evidence, a sample with personal columns masked."""

from collections.abc import Mapping

import dagster as dg
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from incload_assets.loading.change_log import ChangeLog
from incload_assets.loading.columns import DELETE, UPSERT, col
from incload_assets.loading.contract_types import as_text
from incload_assets.loading.declaration import Table
from incload_assets.loading.load import LoadReport
from resources.lake import Lake

SAMPLE_ROWS = 5
SHOWN_CHARACTERS = 120
MASK = "***"

Metadata = dict[str, dg.MetadataValue]


def metadata_of(spark: SparkSession, table: Table, lake: Lake, report: LoadReport) -> Metadata:
    """The metadata of one materialization; its numbers are what the UI plots over time.

    Args:
        spark: For the sample.
        table: The declaration.
        lake: Where tables are.
        report: The outcome of the load.
    """
    evidence, control, merged = report.evidence, report.control, report.merged
    numbers = {
        "rows_read": evidence.rows_read,
        "inserted": merged.inserted,
        "updated": merged.updated,
        "deleted": merged.deleted,
        "applied": evidence.applied,
        "stale": evidence.stale,
        "duplicate": evidence.duplicate,
        "quarantined": evidence.quarantined,
        "keys_withdrawn": control.replaced,
        "delta_version": report.table_version,
        "log_version": report.log_version,
    }
    path = "/".join(table.key.path)
    return {
        **{name: dg.MetadataValue.int(value) for name, value in numbers.items()},
        "seconds": dg.MetadataValue.float(round(sum(report.seconds.values()), 2)),
        "phases": dg.MetadataValue.json({name: round(value, 2) for name, value in report.seconds.items()}),
        "window": dg.MetadataValue.text(f"[{report.window.start.isoformat()}, {report.window.end.isoformat()})"),
        "source_position": dg.MetadataValue.text(control.summary or control.fingerprint),
        "fingerprint": dg.MetadataValue.text(control.fingerprint),
        "evidence": dg.MetadataValue.md(_evidence(report)),
        "table": dg.MetadataValue.path(lake.table_uri(table.key.path)),
        "log": dg.MetadataValue.path(lake.log_uri(table.key.path)),
        "checks": dg.MetadataValue.url(f"/assets/{path}?view=checks"),
        "sample": _sample(spark, table, lake, report),
    }


def _evidence(report: LoadReport) -> str:
    e = report.evidence
    return (
        "| | log | table |\n|---|---|---|\n"
        f"| keys of the window in effect | {e.present} | {e.present} |\n"
        f"| content hash of these | `{e.log_hash:#x}` | `{e.table_hash:#x}` |\n"
        f"| version | {report.log_version} | {report.table_version} |\n\n"
        f"{e.rows_read} read = {e.applied} applied + {e.stale} stale + {e.duplicate} duplicate + "
        f"{e.quarantined} quarantined"
    )


def _sample(spark: SparkSession, table: Table, lake: Lake, report: LoadReport) -> dg.TableMetadataValue:
    log = ChangeLog(table, lake)
    personal = table.contract.personal
    kinds = {field.name: field.data_type for field in table.contract.fields}
    shown = [
        (
            F.when(col(name).isNotNull(), F.lit(MASK))
            if name in personal
            else F.substring(F.make_valid_utf8(as_text(col(name), kinds[name])), 1, SHOWN_CHARACTERS)
        ).alias(name)
        for name in table.columns
    ]
    rows = (
        log.read(spark, report.log_version)
        .filter((F.col("_window") == report.window.key) & F.col("_kind").isin(UPSERT, DELETE))
        .select(F.col("_kind").alias("_change"), *shown)
        .head(SAMPLE_ROWS)
    )
    columns = [
        dg.TableColumn("_change"),
        *(dg.TableColumn(f.name, f.data_type.simpleString()) for f in table.contract.fields),
    ]
    return dg.MetadataValue.table([dg.TableRecord(_printable(row)) for row in rows], dg.TableSchema(columns=columns))


def _printable(row: Row) -> Mapping[str, str]:
    return {name: "" if value is None else str(value) for name, value in row.asDict().items()}

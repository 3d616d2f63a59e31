"""Metadata of materializations for the UI: counts, evidence, and a sample with personal columns masked."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.contract.contract import MASK
from incload_assets.contract.conversion import as_text
from incload_assets.load.load import LoadReport
from incload_assets.load.proven import shown_proof
from incload_assets.load.reconcile import sum_of, unsigned
from incload_assets.platform.settings import current_settings
from incload_assets.platform.sql import col

SAMPLE_ROWS = 5
SHOWN_CHARACTERS = 120

Metadata = dict[str, dg.MetadataValue]


def metadata_of(load: LoadContext, reports: Sequence[LoadReport]) -> dict[str, Metadata]:
    """The metadata of materializations by partition key; the UI plots its numbers over time.

    All loads were reconciled with the same version of the log.
    """
    samples, decided = _samples(load, reports), load.renewed()
    return {report.window.key: _metadata(decided, report, samples[report.window.key]) for report in reports}


def _metadata(load: LoadContext, report: LoadReport, sample: dg.TableMetadataValue) -> Metadata:
    table, lake, evidence, record, merged = load.table, load.lake, report.evidence, report.record, report.merged
    numbers = {
        "rows_read": evidence.rows_read,
        "inserted": merged.inserted,
        "updated": merged.updated,
        "deleted": merged.deleted,
        "applied": evidence.applied,
        "stale": evidence.stale,
        "duplicate": evidence.duplicate,
        **({"waiting": evidence.waiting} if table.by_column else {}),
        **({"removed": evidence.removed} if table.log_retention else {}),
        "quarantined": evidence.quarantined,
        **({"skipped": evidence.skipped} if evidence.skipped else {}),
        **({"erased": evidence.erased} if evidence.erased else {}),
        **({"largest_key": record.largest_key} if record.largest_key else {}),
        **({"largest_place": record.largest_place} if record.largest_place else {}),
        **({"buckets": table.write.divided_into} if table.write.divided_into else {}),
        "keys_withdrawn": record.replaced,
        "bytes": report.size,
        **({"bytes_written": report.written} if report.written is not None else {}),
        "delta_version": report.table_version,
        "log_version": report.log_version,
    }
    path = "/".join(table.key.path)
    return {
        **{name: dg.MetadataValue.int(value) for name, value in numbers.items()},
        "commit": dg.MetadataValue.text(_commit(report)),
        "seconds": dg.MetadataValue.float(round(sum(report.seconds.values()), 2)),
        "phases": dg.MetadataValue.json({name: round(value, 2) for name, value in report.seconds.items()}),
        "timeline": dg.MetadataValue.json(
            [{"phase": name, "start": round(at, 3), "seconds": round(took, 3)} for name, at, took in report.timeline]
        ),
        "proof": dg.MetadataValue.json(shown_proof(evidence, report.proof)),
        "window": dg.MetadataValue.text(f"[{report.window.start.isoformat()}, {report.window.end.isoformat()})"),
        "source_position": dg.MetadataValue.text(record.summary or record.fingerprint),
        "fingerprint": dg.MetadataValue.text(record.fingerprint),
        **({"held": dg.MetadataValue.text(f"{record.hold}, until its source changes")} if record.hold else {}),
        "evidence": dg.MetadataValue.md(_evidence(report)),
        "table": dg.MetadataValue.path(lake.table_uri(table.key.path)),
        "log": dg.MetadataValue.path(lake.log_uri(table.key.path)),
        "checks": dg.MetadataValue.url(f"/assets/{path}?view=checks"),
        "sample": sample,
        **_trace(load.run_id),
    }


def _trace(run_id: str) -> Metadata:
    """The identifier of the run's trace, and where to see it if the settings say."""
    trace_id, address = run_id.replace("-", ""), current_settings().trace_url
    shown: Metadata = {"trace_id": dg.MetadataValue.text(trace_id)} if trace_id else {}
    if trace_id and address:
        shown["trace"] = dg.MetadataValue.url(address.replace("{trace_id}", trace_id))
    return shown


def _commit(report: LoadReport) -> str:
    """The kind of commit that changed the table."""
    if not report.committed:
        return "none: the table was correct"
    return "atomic rewrite of a part" if report.merged.rewrites else "MERGE"


def _evidence(report: LoadReport) -> str:
    e = report.evidence
    return (
        "| | log | table |\n|---|---|---|\n"
        f"| keys of the window in effect | {e.present} | {e.present} |\n"
        f"| content hash of these keys | `{unsigned(e.log_hash)}` | `{unsigned(e.table_hash)}` |\n"
        f"| version | {report.log_version} | {report.table_version} |\n\n"
        f"{e.rows_read} read = {sum_of(e.bins)}"
    )


def _samples(load: LoadContext, reports: Sequence[LoadReport]) -> dict[str, dg.TableMetadataValue]:
    """A few changes of each window, read in one query."""
    table = load.table
    personal = table.contract.personal
    kinds = table.contract.types
    shown = [
        (
            F.when(col(name).isNotNull(), F.lit(MASK))
            if name in personal
            else F.substring(F.make_valid_utf8(as_text(col(name), kinds[name])), 1, SHOWN_CHARACTERS)
        ).alias(name)
        for name in table.columns
    ]
    keys = [report.window.key for report in reports]
    changes = load.log.read(load.spark, reports[0].log_version, keys).filter(F.col("_kind").isin(*UPSERTS, DELETE))
    if len(keys) > 1:
        in_window = Over.partitionBy("_window").orderBy(F.lit(1))
        changes = changes.withColumn("_number", F.row_number().over(in_window)).filter(f"_number <= {SAMPLE_ROWS}")
    found: dict[str, list[dg.TableRecord]] = {key: [] for key in keys}
    for row in changes.select("_window", F.col("_kind").alias("_change"), *shown).head(SAMPLE_ROWS * len(keys)):
        cells = row.asDict()
        found[cells.pop("_window")].append(dg.TableRecord(_printable(cells)))
    columns = [
        dg.TableColumn("_change"),
        *(dg.TableColumn(f.name, f.data_type.simpleString()) for f in table.contract.fields),
    ]
    schema = dg.TableSchema(columns=columns)
    return {key: dg.MetadataValue.table(records, schema) for key, records in found.items()}


def _printable(cells: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: "" if value is None else str(value) for name, value in cells.items()}

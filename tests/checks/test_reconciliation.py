"""Reconciliation: source, log and table are compared, and each kind of disagreement is told."""

from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.checks.reconciliation import ReconciliationConfig, chosen_windows, first_verdict, reconciliation
from incload_assets.platform.settings import Settings
from incload_assets.platform.sql import content_hash_sql
from tests.support.guest_table import guest, house, key


def windows(result: dg.AssetCheckResult) -> dict[object, dict[str, object]]:
    table = result.metadata["windows"]
    assert isinstance(table, dg.TableMetadataValue)
    return {record.data["window"]: dict(record.data) for record in table.records}


def test_agreement_drift_and_a_table_changed_by_hand(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2"), guest("3", room=0))
        h.deliver(2, guest("1", "renamed", seq=2), guest("4", day=2), guest("4", day=2))
        assert h.load(1, 2) == [True, True]

        agrees = reconciliation(spark, h.look(), ReconciliationConfig())
        assert (agrees.passed, agrees.description) == (
            True,
            "Source, log and table agree in 2 compared windows. None of 2 ingested windows has drifted.",
        )
        rows = windows(agrees)
        assert [rows[key(n)]["verdict"] for n in (1, 2)] == ["agrees", "agrees"]
        assert [(rows[key(n)]["rows at source"], rows[key(n)]["rows in log"]) for n in (1, 2)] == [(3, 3), (3, 3)]
        assert (agrees.metadata["rows_compared"].value, agrees.metadata["rows_missing"].value) == (6, 0)
        assert all(
            row["source hash"] == row["log hash"] and row["hash in log"] == row["hash in table"]
            for row in rows.values()
        )
        first = first_verdict(h.look())
        assert (first.passed, first.description) == (True, "None of 2 ingested windows has drifted.")

        h.deliver(1, guest("1"), guest("2", "corrected", seq=2))
        assert not first_verdict(h.look()).passed
        drifted = reconciliation(spark, h.look(), ReconciliationConfig(recent=1))
        assert (drifted.passed, drifted.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert (drifted.description or "").startswith("1 window changed at the source since the load: 2026-01-01.")
        assert drifted.metadata["windows_compared"].value == 1

        spark.sql(f"DELETE FROM {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} WHERE id = '4'")
        pending = reconciliation(spark, h.look(), ReconciliationConfig(partitions=[key(2)]))
        assert (pending.passed, pending.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert pending.metadata["keys_pending"].value == 1
        assert (pending.metadata["rows_compared"].value, pending.metadata["rows_missing"].value) == (3, 1)
        assert windows(pending)[key(2)]["verdict"] == "1 key pending"

        assert h.load(1, 2) == [True, True]
        healed = reconciliation(spark, h.look(), ReconciliationConfig(all_partitions=True))
        assert (healed.passed, list(windows(healed))) == (True, [key(1), key(2)]), healed.description


@pytest.mark.parametrize("edit", ["name = 'edited'", "name = 'edited', seq = seq + 1"])
def test_rows_edited_by_hand_are_put_right_when_their_partition_is_loaded_again(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings, edit: str
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, *(guest(str(number)) for number in range(12)))
        assert h.load(1) == [True]
        # only rows that win against their changes: where sequences are equal the hash of the content decides
        content = content_hash_sql(h.table.columns)
        wins = content.replace("`name`", "'edited' AS name") + " > " + content
        spark.sql(f"UPDATE {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} SET {edit} WHERE {wins}").first()
        found = reconciliation(spark, h.look(), ReconciliationConfig())
        assert (found.passed, found.metadata["keys_pending"].value) == (False, 8), found.description

        assert h.load(1) == [True]
        healed = reconciliation(spark, h.look(), ReconciliationConfig())
        assert healed.passed, healed.description


def test_log_rows_that_the_source_does_not_give_are_found(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2"))
        assert h.load(1) == [True]
        log = h.lake.sql_name(h.lake.log_uri(h.table.key.path))
        spark.sql(f"UPDATE {log} SET _hash = _hash + 1 WHERE id = '1' AND _kind = 'upsert'")
        table = Path(h.lake.table_uri(h.table.key.path))
        differs = reconciliation(spark, h.look(), ReconciliationConfig())
        assert (differs.passed, differs.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "rows differ" in str(windows(differs)[key(1)]["verdict"])
        assert "The source returns other rows than were ingested for 2026-01-01" in (differs.description or "")
        table.rename(tmp_path / "moved away")
        gone = reconciliation(spark, h.look(), ReconciliationConfig())
        assert gone.passed is False
        assert "no table" in str(windows(gone)[key(1)]["verdict"])


def test_rows_of_deleted_files_and_rows_validated_by_other_code_are_no_disagreement(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        with house(tmp_path, spark_settings, instance=instance) as h:
            h.deliver(1, guest("1"), name="a.json")
            h.deliver(1, guest("2"), name="b.json")
            assert h.load(1) == [True]
            h.file(1, "b.json").unlink()
            kept = reconciliation(spark, h.look(), ReconciliationConfig())
            assert (kept.passed, windows(kept)[key(1)]["rows in log"]) == (True, 1), kept.description
        with house(tmp_path, spark_settings, instance=instance, code_version="2") as h:
            changed = reconciliation(spark, h.look(), ReconciliationConfig())
            assert (changed.passed, windows(changed)[key(1)]["verdict"]) == (True, "validated by other code")


def test_a_partition_that_is_not_landed_is_refused(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h, pytest.raises(dg.Failure, match="2026-01-03 is not ingested"):
        chosen_windows(h.look(), ReconciliationConfig(partitions=[key(3)]))

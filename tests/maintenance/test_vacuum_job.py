"""A vacuum as Dagster runs it."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from incload_assets.declaration import window as windows
from incload_assets.maintenance.vacuum import VACUUM_TABLES
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, job_of

SATURDAY, SUNDAY = datetime(2026, 1, 10, 2, 50, tzinfo=UTC), datetime(2026, 1, 11, 2, 50, tzinfo=UTC)


def test_each_table_is_observed_with_what_was_removed_and_files_never_committed_are_looked_for_on_sundays(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("k", seq=1))
        assert h.load(1) == [True]
        left = Path(h.lake.table_uri(h.table.key.path), "part-00000.parquet")
        left.write_bytes(b"half")
        long_ago = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        os.utime(left, (long_ago, long_ago))

        def removed(at: datetime) -> dict[str, object]:
            monkeypatch.setattr(windows, "now", lambda: at)
            config = {"ops": {VACUUM_TABLES.step_name: {"config": {"confirm": "all tables"}}}}
            result = job_of(VACUUM_TABLES, h.table).execute_in_process(
                instance=h.instance, resources=h.resources, run_config=config
            )
            [event] = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
            observed = event.asset_observation_data.asset_observation
            return {name: value.value for name, value in observed.metadata.items()}

        assert removed(SATURDAY) == {"vacuum_files_removed": 0, "vacuum_bytes_removed": 0, "vacuum_former_removed": 0}
        assert removed(SUNDAY) == {"vacuum_files_removed": 1, "vacuum_bytes_removed": 4, "vacuum_former_removed": 0}
        assert not left.exists()

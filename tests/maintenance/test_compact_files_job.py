"""Compaction of small files as Dagster runs it."""

from pathlib import Path

import pytest

from incload_assets.assets import Merge
from incload_assets.maintenance import compact_files as small_files
from incload_assets.maintenance.compact_files import COMPACT_FILES
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, job_of


def test_each_table_is_observed_with_what_became_of_its_files(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "MANY", 2)
    with house(tmp_path, spark_settings, write=Merge()) as h:
        for number in (1, 2):
            h.deliver(number, guest(f"k{number}", seq=number))
        assert h.load(1, 2) == [True, True]
        result = job_of(COMPACT_FILES, h.table).execute_in_process(instance=h.instance, resources=h.resources)
        [event] = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
        found = {name: value.value for name, value in event.asset_observation_data.asset_observation.metadata.items()}
        assert found.pop("files_bytes") > 0
        assert found.pop("files_read_ms_before") > 0 and found.pop("files_read_ms_after") > 0
        assert found == {
            "files_before": 2,
            "files_after": 1,
            "files_partitions_compacted": 1,
            "files_partitions_busy": 0,
        }
        assert h.load(1) == [True]

"""A lost data file, or a rule that somebody gave a table, is told as such; the remedy leads to a right table."""

import re
import shutil
from pathlib import Path

import pytest

from incload_assets.assets import Merge
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from tests.support.guest_table import guest, house, key


@pytest.mark.parametrize("what", ["the table", "the log of changes"])
def test_a_lost_file_of_the_lake_is_named_and_the_remedy_makes_the_table_right(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "a place" / "landing"))
    with house(tmp_path / "a place", spark_settings, write=Merge()) as h:
        h.deliver(1, guest("k", room=1, seq=1))
        assert h.load(1) == [True]
        path = h.table.key.path
        folder = Path(h.lake.table_uri(path) if what == "the table" else h.lake.log_uri(path))
        [lost] = [file for file in folder.rglob("*.parquet") if not {"_delta_log", "_kind=control"} & {*file.parts}]
        lost.unlink()
        h.deliver(1, guest("k", room=2, seq=2))

        [failure] = h.run(h.loads, partition=key(1)).get_step_failure_events()
        told = str(failure.step_failure_data.error)
        assert f"{lost.name}, a data file of {what}, is gone" in told
        assert f"remove all of {folder}" in told

        shutil.rmtree(folder)
        assert h.load(1) == [True]
        table = h.lake.delta(h.lake.table_uri(path))
        assert table is not None and table.to_pyarrow_table(columns=["room"]).to_pylist() == [{"room": 2}]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "ADD CONSTRAINT `low` CHECK (room < 5 OR name = '')",
            r"guests: the CHECK constraint low .*room < 5.* of the table refuses a row with name \*\*\*, room 7\. Rule",
        ),
        ("SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "the table has delta.appendOnly = true"),
    ],
)
def test_a_rule_that_somebody_gave_the_table_is_named_and_the_remedy_loads_the_row(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch, rule: str, says: str
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    with house(tmp_path, spark_settings, write=Merge()) as h:
        h.deliver(1, guest("k", room=1, seq=1))
        assert h.load(1) == [True]
        uri = h.lake.table_uri(h.table.key.path)
        with open_session(spark_settings) as spark:
            spark.sql(f"ALTER TABLE {h.lake.sql_name(uri)} {rule}")
            h.deliver(1, guest("k", room=7, seq=2))
            [failure] = h.run(h.loads, partition=key(1)).get_step_failure_events()
            told = str(failure.step_failure_data.error)
            assert re.search(says, told), told
            [remedy] = re.findall(r"ALTER TABLE [^\n]*?(?=\.$)", told, re.MULTILINE)[:1]
            spark.sql(remedy)
        assert h.load(1) == [True]
        table = h.lake.delta(uri)
        assert table is not None and table.to_pyarrow_table(columns=["room"]).to_pylist() == [{"room": 7}]

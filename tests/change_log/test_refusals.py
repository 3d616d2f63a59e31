"""A rule that somebody gave a table is told as such, and the way that is told leads on."""

import re
from pathlib import Path

import pytest

from incload_assets.assets import Merge
from resources.settings import Settings
from resources.spark.resource import open_session
from tests.support.guest_table import guest, house, key


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

"""A lake that an earlier version of this package wrote loads on as if nothing had happened."""

import json
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.log import ChangeLog
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import Checkpoint
from tests.load.former_tables import FILES, FORMER_DAYS, STRATEGIES, former_table, row
from tests.support.tables import Loaded

LAKE = Path(__file__).with_name("former_lake.zip")
AFTER = {
    "partitioned": {("a", "third", 3), ("c", None, 1), ("d", "new", 2)},
    "bucketed": {("a", "third", 3), ("c", None, 1), ("d", "new", 2)},
    "history": {
        ("a", "corrected", 1), ("a", "second", 2), ("a", "third", 3), ("b", "first", 1), ("c", None, 1), ("d", "new", 2)
    },
    "snapshot": {("a", "third", 3)},
}  # fmt: skip
"""What each table holds in the end: the log of the former version is folded with what is ingested now."""


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_former_lake_is_known_goes_on_and_takes_corrections(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipfile.ZipFile(LAKE).extractall(tmp_path)
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    table = Loaded(spark, former_table(name), Lake(str(tmp_path / "lake")), {})
    before = ChangeLog(table.table, table.lake).records()
    assert before.keys() == set(FORMER_DAYS)
    assert {record.code_version for record in before.values()} == {table.table.code_version}
    first, *_ = FORMER_DAYS
    at = table.versions()[table.uri]
    table.load(first, checkpoint=Checkpoint(before[first].fingerprint, clean=True))  # window records get new fields
    versions = table.versions()
    assert versions[table.uri] == at
    for day in FORMER_DAYS:
        again = table.load(day, checkpoint=Checkpoint(before[day].fingerprint, clean=True))
        assert (again.ingested, again.committed) == (False, False)
    assert table.versions() == versions
    _write(tmp_path, name, "2026-01-03", [row("a", "third", 3)])
    assert table.load("2026-01-03", checkpoint=Checkpoint(untried=True)).ingested
    corrected = [record | ({"value": "corrected"} if record["id"] == "a" else {}) for record in FILES["2026-01-01"]]
    _write(tmp_path, name, "2026-01-01", corrected)
    assert table.load("2026-01-01", checkpoint=Checkpoint(before["2026-01-01"].fingerprint, clean=True)).ingested
    assert table.rows("id", "value", "seq") == AFTER[name]


def _write(root: Path, name: str, day: str, records: list[dict[str, object]]) -> None:
    file = root / "landing" / name / day / "a.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        "".join(json.dumps(record) + "\n" for record in records if name != "snapshot" or record["op"] != "d")
    )

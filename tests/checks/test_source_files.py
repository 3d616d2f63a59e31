"""Source files: what was loaded and is gone."""

from pathlib import Path

import dagster as dg

from incload_assets.checks.freshness import freshness
from incload_assets.checks.gaps import gaps
from incload_assets.checks.source_files import source_files
from resources.settings import Settings
from tests.house import guest, house, key


def test_a_deleted_file_is_reported_until_it_is_back(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), name="a.json")
        h.deliver(1, guest("2"), name="b.json")
        assert h.load(1) == [True]
        there = source_files(h.look())
        assert (there.passed, there.description) == (True, "Everything that was loaded is still at the source.")
        h.file(1, "b.json").unlink()
        gone = source_files(h.look())
        assert (gone.passed, gone.severity) == (False, dg.AssetCheckSeverity.WARN)
        table = gone.metadata["gone"]
        assert isinstance(table, dg.TableMetadataValue)
        [row] = [record.data for record in table.records]
        assert row["window"] == key(1)
        assert str(row["name"]).endswith("guests/2026-01-01/b.json")
        assert gone.description == (
            "Loaded, and gone from the source: 1 file of 1 window (2026-01-01). The table keeps their rows. "
            'What to do: restore the files, or, if their rows are to go too, declare deleted="retract" on the source.'
        )
        assert h.load(1) == [True]
        assert source_files(h.look()).passed is False, "loading again neither loses the rows nor the memory"
        h.deliver(1, guest("2"), name="b.json")
        assert source_files(h.look()).passed is True


def test_a_source_that_is_gone_altogether_is_a_finding_and_nothing_is_made_up(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        assert h.load(1) == [True]
        (tmp_path / "landing").rename(tmp_path / "elsewhere")
        seen = h.look()
        assert source_files(seen).passed is False
        assert (source_files(seen).description or "").startswith("The source could not be looked at: ")
        assert gaps(seen).passed is True
        assert "The source could not be looked at: " in (gaps(seen).description or "")
        assert "the source could not be looked at" in (freshness(seen).description or "")

"""Source files: what was loaded and is gone, and what is left out because of its name."""

from pathlib import Path

import dagster as dg

from incload_assets.checks.freshness import freshness
from incload_assets.checks.gaps import gaps
from incload_assets.checks.source_files import source_files
from incload_assets.platform.settings import Settings
from incload_assets.progress.status import table_status
from tests.support.guest_table import NOON, guest, house, key


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
            "Loaded, but gone from the source: 1 file of 1 window (2026-01-01). The table keeps their rows. "
            'What to do: restore the files; or, to remove their rows, declare deleted="retract" on the source.'
        )
        assert h.load(1) == [True]
        assert source_files(h.look()).passed is False, "loading again neither loses the rows nor the memory"
        h.deliver(1, guest("2"), name="b.json")
        assert source_files(h.look()).passed is True


def test_files_that_the_path_leaves_out_are_told_once(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        for name in ("_more.json", "part.json.gz", "_SUCCESS", ".a.json.crc", "a.json.md5"):
            h.file(1, name).write_text("{}")
        h.file(1, "_empty.json").touch()
        names = ["guests/2026-01-01/_more.json", "guests/2026-01-01/part.json.gz"]
        checks = dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, "source_files"))

        def evaluated() -> dg.AssetCheckEvaluation:
            [found] = h.run(checks).get_asset_check_evaluations()
            return found

        first = evaluated()
        assert (first.passed, first.metadata["left_out"].value) == (True, names)
        assert first.description == (
            f"Everything that was loaded is still at the source. Left out because of their names: {', '.join(names)}. "
            "To load them, rename them or let the path match them. Otherwise there is nothing to do; they are reported "
            "as new only once."
        )
        assert h.load(1) == [True]
        (tmp_path / "landing").rename(tmp_path / "elsewhere")
        assert "could not be checked" in (evaluated().description or "")
        (tmp_path / "elsewhere").rename(tmp_path / "landing")
        again = evaluated()
        assert (again.passed, again.metadata["left_out"].value) == (True, names)
        assert again.description == (
            "Everything that was loaded is still at the source. Left out because of their names, as before: "
            f"{', '.join(names)}."
        )
        h.file(2, "b.json.tmp").parent.mkdir()
        h.file(2, "b.json.tmp").write_text("{}")
        news = evaluated()
        assert "Left out because of their names: guests/2026-01-02/b.json.tmp. To load" in (news.description or "")
        assert news.metadata["left_out"].value == [*names, "guests/2026-01-02/b.json.tmp"]
        assert table_status(h.instance, h.table, h.lake, NOON).left_out == [*names, "guests/2026-01-02/b.json.tmp"]


def test_a_source_that_is_gone_altogether_is_a_finding_and_nothing_is_made_up(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        assert h.load(1) == [True]
        (tmp_path / "landing").rename(tmp_path / "elsewhere")
        seen = h.look()
        assert source_files(seen).passed is False
        assert (source_files(seen).description or "").startswith("The source could not be checked: ")
        assert gaps(seen).passed is True
        assert "The source could not be checked: " in (gaps(seen).description or "")
        assert "fix the source, which could not be checked" in (freshness(seen).description or "")

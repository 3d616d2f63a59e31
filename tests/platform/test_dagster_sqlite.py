"""How Dagster's SQLite files are made and asked."""

import sqlite3
from pathlib import Path
from unittest import mock

import dagster as dg
from sqlalchemy import Engine, NullPool

from incload_assets.platform.dagster_sqlite import tune_sqlite


@dg.job
def empty() -> None:
    """A job without steps."""


def test_the_file_of_a_run_has_small_pages_and_others_keep_theirs(tmp_path: Path) -> None:
    tune_sqlite()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        run = instance.create_run_for_job(empty)
        instance.report_engine_event("began", run)
        assert [entry.message for entry in instance.all_logs(run.run_id)] == ["began"]
    folder = tmp_path / "history" / "runs"
    pages = {file.name: sqlite3.connect(file).execute("PRAGMA page_size").fetchone()[0] for file in folder.glob("*.db")}
    assert pages == {"index.db": 4096, f"{run.run_id}.db": 1024}
    assert (folder / f"{run.run_id}.db").stat().st_size < 60_000


def test_a_file_has_one_engine_however_often_it_is_asked(tmp_path: Path) -> None:
    tune_sqlite()
    connected: list[Engine] = []
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("orders"))
        with mock.patch.object(Engine, "connect", autospec=True, side_effect=Engine.connect) as connect:
            assert [*map(dg.AssetKey.to_user_string, instance.all_asset_keys())] == ["orders"]
            assert instance.get_latest_materialization_event(dg.AssetKey("orders")) is not None
        connected += [call.args[0] for call in connect.call_args_list]
    assert len(connected) > 3
    assert len({id(engine) for engine in connected}) == 1
    assert isinstance(connected[0].pool, NullPool)  # so that no connection outlives its query, or a fork

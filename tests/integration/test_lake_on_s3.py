"""A table whose lake is a bucket: loaded, landed again, merged, with nothing left over of what was not committed."""

from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from incload_assets.change_log.staged import UNFINISHED
from incload_assets.declaration.window import window_of
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.progress.checkpoint import Checkpoint
from tests.servers.s3 import S3Server
from tests.support.tables import day, item, make


@pytest.mark.integration
def test_a_table_on_s3_is_loaded_landed_again_merged_and_undone(
    tmp_path: Path, s3_server: S3Server, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.use(monkeypatch)
    # as another writer leaves it that is creating the table, or was killed while it did
    created = dict.fromkeys(("prod/items/_delta_log/", "prod/_changes/items/_delta_log/"), b"")
    bucket = s3_server.new_bucket("tables", created)
    content = {
        day(1): [item("kept", "a", 1), item("changed", "a", 1), item("gone", "a", 1)],
        day(2): [item("changed", "b", 2), item("new", "b", 2)],
    }
    with open_session(spark_settings) as spark:
        table = replace(make(spark, tmp_path, content), lake=Lake(f"s3://{bucket}/prod"))
        first = table.load(1)
        table.load(2)
        table.content[day(1)] = [item("kept", "newer", 3), item("changed", "a", 1)]
        again = table.load(1, checkpoint=Checkpoint(first.record.fingerprint, clean=True))
        assert (again.record.replaced, again.evidence.pending) == (1, 0)
        assert not table.replay(again).committed
        assert table.rows() == {("kept", "newer", 3), ("changed", "b", 2), ("new", "b", 2)}
        undo = Undo("2", because="a test")
        undo_window(table.context(), window_of(table.table.partitions_def, day(1)), undo)
        assert table.rows() == {("kept", "a", 1), ("changed", "b", 2), ("new", "b", 2), ("gone", "a", 1)}
    objects = boto3.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert not [found["Key"] for found in objects if UNFINISHED in found["Key"] and found["Size"]]

"""A person is erased from a lake that is a bucket, and no object of the bucket has a trace left."""

from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path

import boto3
import pyarrow.parquet as parquet
import pytest

from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.files import Files
from tests.erasure.test_erase import ANNA, BERT, CONTENT, MARK, Order, erase, loaded, order, write
from tests.servers.s3 import S3Server
from tests.support.tables import Loaded, day, make


@pytest.mark.night  # the laws of an erasure on another store: each object is asked for many times
@pytest.mark.integration
def test_a_person_is_gone_from_every_object_of_a_lake_on_s3(
    tmp_path: Path, s3_server: S3Server, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.use(monkeypatch)
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "k" * 40)
    bucket = s3_server.new_bucket("people", {})
    write(tmp_path, {1: CONTENT[1][:2], 2: [*CONTENT[2], order("g", ANNA, 15, f"corrected away {MARK}")]})
    with open_session(spark_settings) as spark:
        made = make(
            spark,
            tmp_path,
            source=Files(str(tmp_path / "{window:%Y-%m-%d}.json")),
            contract=Order,
            subject=Subject("person", by="person"),
            quarantine=Quarantine(max_share=0.9),
        )
        table = loaded(Loaded(spark, made.table, Lake(f"s3://{bucket}/prod"), {}), 1, 2)
        write(tmp_path, CONTENT)
        loaded(table, 1, 2, 3)
        assert objects_with_mark(bucket)
        proof = erase(table)
        assert proof.is_proven, [*proof.lines()]
        assert proof.traces.files > 10 and proof.landings[0] > 0 and proof.removed.files > 0
        assert objects_with_mark(bucket) == []
        assert table.rows("id", "person") == {("b", BERT), ("c", BERT), ("g", BERT)}
        undo_window(table.context(), window_of(table.table.partitions_def, day(2)), Undo())
        table.load(2, if_held="release")
        assert table.rows("id", "person") == {("b", BERT), ("c", BERT), ("g", BERT)}
        assert objects_with_mark(bucket) == []


def objects_with_mark(bucket: str) -> list[str]:
    return [key for key, text in _told(bucket) if MARK in text]


def _told(bucket: str) -> Iterator[tuple[str, str]]:
    with closing(boto3.client("s3")) as client:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for found in page["Contents"]:
                body = client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
                yield found["Key"], body.decode(errors="ignore")
                if found["Key"].endswith(".parquet"):
                    yield found["Key"], str(parquet.read_table(BytesIO(body)).to_pylist())

"""The shop on S3, against a server that speaks its protocol."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.shop import Shop
from incload_assets.shop.calendar import midnight
from tests.shop.conftest import MONDAY, landed


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="shop")
    yield "shop"
    server.stop()


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_on_s3_the_shop_writes_the_bytes_it_writes_locally(bucket: str, scheme: str, tmp_path: Path) -> None:
    local = Shop(Settings(home=tmp_path / "local"), opened=MONDAY, scale=0.1)
    remote = Shop(Settings(home=tmp_path / "remote", landing=f"{scheme}://{bucket}/in"), opened=MONDAY, scale=0.1)
    local.advance(days=1)
    remote.advance(days=1)
    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket)
    objects = {
        entry["Key"].removeprefix("in/"): boto3.client("s3").get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
        for page in pages
        for entry in page["Contents"]
    }
    assert objects == landed(tmp_path / "local")
    assert remote.now == midnight(date(2026, 1, 6))


def test_a_missing_bucket_is_named_and_the_clock_stands_still(bucket: str, tmp_path: Path) -> None:
    shop = Shop(Settings(home=tmp_path, landing="s3://nowhere/in"), opened=MONDAY, scale=0.1)
    with pytest.raises(IncrementalLoadError, match="cannot write s3://nowhere/in/"):
        shop.advance(days=1)
    assert shop.now == midnight(MONDAY)

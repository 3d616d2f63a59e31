"""Files in Google Cloud Storage, by an emulator where it is installed; and the settings of each client."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from incload_assets.platform.errors import IncrementalLoadError, SourceUnreadable, SparkUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.object_stores import object_store
from incload_assets.sources.files.storage import store_errors, store_of
from tests.servers.object_stores import FAKE_GCS, fake_gcs, lacks

ROOT = "gs://landing"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with fake_gcs() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        store_of(ROOT).mkdir("landing")
        yield ROOT


@pytest.mark.integration
@pytest.mark.skipif(lacks(FAKE_GCS), reason="fake-gcs-server is not installed; it is a module of Go")
def test_files_are_listed_read_and_written(bucket: str) -> None:
    store, client = object_store(bucket), store_of(bucket)
    names = ["2026-01-01/a b%é+.json", "2026-01-02/c.json", "2026-01-02/deeper/b.json", "2026-01-03/d.json"]
    for name in names:
        client.pipe_file(f"{bucket}/in/{name}", name.encode())
    listed = list(store.objects(f"{bucket}/in/2026-01-0", None, None, nested=True))
    assert [found.path for found in listed] == [f"{bucket}/in/{name}" for name in names]
    assert [found.size for found in listed] == [len(name.encode()) for name in names]
    second = list(store.objects(f"{bucket}/in/2026-01-02/", None, None, nested=False))
    assert [found.path for found in second] == [f"{bucket}/in/2026-01-02/c.json"]
    ranged = store.objects(f"{bucket}/in/", f"{bucket}/in/2026-01-01z", f"{bucket}/in/2026-01-02/", nested=True)
    assert [found.path for found in ranged] == [f"{bucket}/in/{name}" for name in names[1:3]]
    assert client.cat_file(f"{bucket}/in/{names[0]}", start=0, end=10) == b"2026-01-01"
    client.pipe_file(f"{bucket}/in/{names[1]}", b"newer")
    [again] = store.objects(f"{bucket}/in/2026-01-02/", None, None, nested=False)
    assert again.etag != second[0].etag
    with pytest.raises(SourceUnreadable, match="there is no gs://nothing"), store_errors("orders", "gs://nothing"):
        list(object_store("gs://nothing").objects("gs://nothing/in/", None, None, nested=True))


def test_a_silent_store_is_told_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"127.0.0.1:{free_port()}")
    with pytest.raises(SparkUnavailable, match="STORAGE_EMULATOR_HOST"):
        Lake(ROOT).version(f"{ROOT}/orders")


def test_a_file_of_credentials_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
    for attempt in (lambda: store_errors("orders", ROOT).__enter__(), lambda: Lake(ROOT).version(f"{ROOT}/orders")):
        with pytest.raises(IncrementalLoadError, match="GOOGLE_APPLICATION_CREDENTIALS=/nonexistent"):
            attempt()


def test_credentials_that_are_none_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account", "private_key": "not-to-be-shown"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    with pytest.raises(SourceUnreadable, match="GOOGLE_APPLICATION_CREDENTIALS") as error, store_errors("orders", ROOT):
        store_of(ROOT).cat_file(f"{ROOT}/in/a.json")
    assert "not-to-be-shown" not in str(error.value)


def test_spark_creates_a_commit_only_where_there_is_none() -> None:
    assert object_store(ROOT).spark_conf()["spark.delta.logStore.gs.impl"] == "io.delta.storage.GCSLogStore"

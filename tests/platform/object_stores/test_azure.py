"""Files and tables in Azure, by Azurite where it is installed; and the settings of each client."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable, SparkUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.object_stores import object_store
from incload_assets.sources.files.storage import store_errors, store_of
from tests.servers.object_stores import ACCOUNT, AZURITE, KEY, azurite, lacks

ROOT = f"abfss://landing@{ACCOUNT}.dfs.core.windows.net"
EMULATED = pytest.mark.skipif(lacks(AZURITE), reason="azurite is not installed; npm has it")


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with azurite() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        store_of(ROOT).mkdir("landing")
        yield ROOT


@pytest.mark.integration
@EMULATED
def test_files_are_listed_read_and_written(container: str) -> None:
    store, client = object_store(container), store_of(container)
    names = ["2026-01-01/a b%é+.json", "2026-01-02/c.json", "2026-01-02/deeper/b.json", "2026-01-03/d.json"]
    for name in names:
        client.pipe_file(f"{container}/in/{name}", name.encode())
    listed = list(store.objects(f"{container}/in/2026-01-0", None, None, nested=True))
    assert [found.path for found in listed] == [f"{container}/in/{name}" for name in names]
    assert [found.size for found in listed] == [len(name.encode()) for name in names]
    second = list(store.objects(f"{container}/in/2026-01-02/", None, None, nested=False))
    assert [found.path for found in second] == [f"{container}/in/2026-01-02/c.json"]
    ranged = store.objects(
        f"{container}/in/", f"{container}/in/2026-01-01z", f"{container}/in/2026-01-02/", nested=True
    )
    assert [found.path for found in ranged] == [f"{container}/in/{name}" for name in names[1:3]]
    assert [store.full_path(name) for name in client.find(f"{container}/in")] == [found.path for found in listed]
    assert client.cat_file(f"{container}/in/{names[0]}", start=0, end=10) == b"2026-01-01"
    client.pipe_file(f"{container}/in/{names[1]}", b"newer")
    [again] = store.objects(f"{container}/in/2026-01-02/", None, None, nested=False)
    assert again.etag != second[0].etag


@pytest.mark.integration
@EMULATED
def test_of_two_commits_without_spark_one_is_refused(container: str) -> None:
    lake = Lake(f"{container}/lake")
    uri = f"{lake.root}/orders"
    assert lake.version(uri) is None
    assert lake.append(uri, pa.table({"id": [1]}), "loads", 1)
    one, other = lake.delta(uri, 0), lake.delta(uri, 0)
    with pytest.raises(CommitFailedError):
        for table in (one, other):
            once = CommitProperties(max_commit_retries=0)
            write_deltalake(table, pa.table({"id": [2]}), mode="append", commit_properties=once)
    assert lake.identity(create=True) == lake.identity(create=True)


@pytest.mark.integration
@EMULATED
def test_what_azure_refuses_is_told_without_a_secret(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = container.replace("landing@", "nothing@")

    def told(place: str, kind: type[IncrementalLoadError]) -> str:
        with pytest.raises(kind) as error, store_errors("orders", place):
            list(object_store(place).objects(f"{place}/in/", None, None, nested=True))
        assert error.value.remedy
        return str(error.value)

    assert told(other, SourceUnreadable).startswith(f"orders: there is no {other} (ContainerNotFound)")
    with pytest.raises(IncrementalLoadError, match=r"refuses bucket 'nothing' \(ContainerNotFound\)"):
        Lake(other).version(f"{other}/orders")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", f"AAAA{KEY[4:]}")
    refused = told(container, SourceUnreadable)
    assert refused.startswith(f"orders: Azure refuses {container} (AuthorizationFailure)")
    assert "AZURE_STORAGE_ACCOUNT_KEY" in refused
    assert KEY[4:] not in refused
    with pytest.raises(IncrementalLoadError, match="AZURE_") as error:
        Lake(container).version(f"{container}/orders")
    assert KEY[4:] not in str(error.value)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "no base64")
    told(container, SourceUnreadable)


@pytest.mark.integration
def test_a_silent_store_is_told_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{free_port()}/{ACCOUNT}")
    with pytest.raises(SourceUnavailable, match="AZURE_STORAGE_ENDPOINT"), store_errors("orders", ROOT):
        store_of(ROOT).cat_file(f"{ROOT}/in/a.json")
    with pytest.raises(SparkUnavailable, match="AZURE_STORAGE_ENDPOINT"):
        Lake(ROOT).version(f"{ROOT}/orders")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"AZURE_STORAGE_ACCOUNT_KEY": "k3y"}, ("SharedKey", "${env.AZURE_STORAGE_ACCOUNT_KEY}", None)),
        ({"AZURE_STORAGE_SAS_TOKEN": "k3y"}, ("SAS", "${env.AZURE_STORAGE_SAS_TOKEN}", None)),
        (
            {"AZURE_CLIENT_ID": "me", "AZURE_TENANT_ID": "us", "AZURE_CLIENT_SECRET": "k3y"},
            ("OAuth", "${env.AZURE_CLIENT_SECRET}", "ClientCredsTokenProvider"),
        ),
        (
            {"AZURE_CLIENT_ID": "me", "AZURE_TENANT_ID": "us", "AZURE_FEDERATED_TOKEN_FILE": "/token"},
            ("OAuth", "/token", "WorkloadIdentityTokenProvider"),
        ),
        ({}, ("OAuth", "2", "MsiTokenProvider")),
    ],
    ids=["key", "signature", "service principal", "workload identity", "managed identity"],
)
def test_spark_gets_the_credentials_by_the_names_of_their_variables(
    environment: dict[str, str], expected: tuple[str, str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    conf = object_store(ROOT).spark_conf()
    kind, value, provider = expected
    assert conf["spark.hadoop.fs.azure.account.auth.type"] == kind
    assert value in conf.values()
    found = conf.get("spark.hadoop.fs.azure.account.oauth.provider.type")
    assert (found and found.rpartition(".")[2]) == provider
    assert "k3y" not in conf.values()

"""Azure Data Lake Storage (Gen2), by the environment variables that Azure's own tools read.

The first of these is used: the account's key in ``AZURE_STORAGE_ACCOUNT_KEY``, a shared access signature in
``AZURE_STORAGE_SAS_TOKEN``, a service principal in ``AZURE_CLIENT_ID``, ``AZURE_TENANT_ID`` and
``AZURE_CLIENT_SECRET``, a workload identity in ``AZURE_FEDERATED_TOKEN_FILE``, the machine's managed identity.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from typing import Any, Self

import fsspec
from fsspec.asyn import sync

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.object_stores.store import Failure, ObjectStore, StoredObject, beyond

KEY = "AZURE_STORAGE_ACCOUNT_KEY"
SIGNATURE = "AZURE_STORAGE_SAS_TOKEN"
_PATH = re.compile(r"abfss://(?P<container>[a-z0-9$-]+)@(?P<account>[a-z0-9]+)\.dfs\.core\.windows\.net(/|$)")
_OAUTH = "spark.hadoop.fs.azure.account.oauth2"
_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2"


@dataclass(frozen=True)
class Azure(ObjectStore):
    """A container of a storage account with a hierarchical namespace."""

    container: str
    account: str

    name = "Azure"
    form = "abfss://container@account.dfs.core.windows.net/prefix"
    scheme = "abfss"
    jars = ("org.apache.hadoop:hadoop-azure:3.5.0",)
    variables = ("AZURE_",)
    provider = "the environment variables AZURE_…, or of the machine's identity"
    credentials = (
        f"set {KEY}, {SIGNATURE}, or AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or run with an identity"
    )
    endpoint_variable = "AZURE_STORAGE_ENDPOINT"

    @classmethod
    def of(cls, path: str) -> Self:
        """The container in a full path; raises ValueError if it names none."""
        if (found := _PATH.match(path)) is None:
            raise ValueError(path)
        return cls(found["container"], found["account"])

    @property
    def endpoint(self) -> str | None:
        """The address of the account's blobs where it is not Azure's own, such as an emulator's, with the account."""
        return os.environ.get(self.endpoint_variable) or None

    def check(self, doing: str) -> None:
        """Checks that adlfs is installed."""
        try:
            import adlfs  # noqa: F401  spares those who have nothing in Azure
        except ImportError:
            raise IncrementalLoadError(
                f"{doing}: the package adlfs is not installed",
                rule="files in Azure are reached by it",
                remedy="install incload[azure]",
            ) from None

    def full_path(self, name: str) -> str:
        """The path of an object that adlfs names ``container/key``."""
        return f"{self.bucket_path}/{name.partition('/')[2]}"

    @property
    def bucket_path(self) -> str:
        """The full path of the container."""
        return f"abfss://{self.container}@{self.account}.dfs.core.windows.net"

    def file_system(self) -> fsspec.AbstractFileSystem:
        """The client of adlfs, another one when the environment names other credentials or another endpoint."""
        return _client(self.account, self.environment)

    def objects(self, prefix: str, after: str | None, upto: str | None, *, nested: bool) -> Iterator[StoredObject]:
        """The blobs, by the client's own service, since adlfs lists a container that does not exist as empty."""
        start = f"{self.bucket_path}/"
        client = self.file_system()

        async def listed() -> list[Any]:
            async with client.service_client.get_container_client(self.container) as container:
                beginning = prefix[len(start) :]
                if nested:
                    found = container.list_blobs(name_starts_with=beginning, include=["metadata"])
                else:
                    found = container.walk_blobs(name_starts_with=beginning, include=["metadata"], delimiter="/")
                return [blob async for blob in found]

        for blob in sorted(sync(client.loop, listed), key=lambda blob: str(blob.name)):
            path = start + blob.name
            is_folder = not hasattr(blob, "etag") or (blob.metadata or {}).get("hdi_isfolder") == "true"
            if is_folder or beyond(path, upto) or path <= (after or ""):
                continue
            yield StoredObject(path, blob.size, blob.last_modified.astimezone(UTC), blob.etag.strip('"'))

    def failure(self, error: BaseException) -> Failure | None:
        """The meaning of an error of Azure's SDK, or of the error that adlfs makes of one."""
        from azure.core import exceptions as azure  # spares those who have nothing in Azure

        name = type(error).__name__
        if isinstance(error, azure.ClientAuthenticationError) and error.status_code is None:
            return Failure("no credentials", name)
        if isinstance(error, (azure.ServiceRequestError, azure.ServiceResponseError)):
            return Failure("no trust" if "certificate" in str(error).lower() else "silent", name)
        if isinstance(error, azure.HttpResponseError):
            told = getattr(error, "error_code", None)  # a text, or a member of an enumeration
            code = str(getattr(told, "value", told) or name)
            status = error.status_code or 0
            if status >= 500 or status == 429:
                return Failure("busy", code)
            if code in ("ContainerNotFound", "FilesystemNotFound", "ContainerBeingDeleted"):
                return Failure("no bucket", code)
            return Failure("no file" if status == 404 else "refused", code)
        if isinstance(error, FileNotFoundError):
            return Failure("no file", name)
        if isinstance(error, (TimeoutError, ConnectionError)):
            return Failure("silent", name)
        if isinstance(error, OSError):
            return Failure("refused", name)
        return Failure("wrong settings", name) if isinstance(error, (azure.AzureError, ValueError)) else None

    def delta_options(self) -> dict[str, str]:
        """The endpoint; deltalake finds the credentials itself."""
        options = {"max_retries": "2", "azure_storage_account_name": self.account}
        if self.endpoint:
            options |= {"azure_storage_endpoint": self.endpoint, "allow_http": str(not self.tls).lower()}
        return options

    def spark_conf(self) -> dict[str, str]:
        """The configuration of Hadoop's ABFS; Hadoop puts the secrets in from the environment of its own process."""
        conf = {
            # the defaults take a quarter of an hour to give up
            "spark.hadoop.fs.azure.io.retry.max.retries": "2",
            "spark.hadoop.fs.azure.oauth.token.fetch.retry.max.retries": "2",
        }
        given = {name for name, value in os.environ.items() if value}
        if KEY in given:
            return conf | {
                "spark.hadoop.fs.azure.account.auth.type": "SharedKey",
                "spark.hadoop.fs.azure.account.key": _from_environment(KEY),
            }
        if SIGNATURE in given:
            return conf | {
                "spark.hadoop.fs.azure.account.auth.type": "SAS",
                "spark.hadoop.fs.azure.sas.fixed.token": _from_environment(SIGNATURE),
            }
        conf["spark.hadoop.fs.azure.account.auth.type"] = "OAuth"
        tenant = os.environ.get("AZURE_TENANT_ID", "")
        if "AZURE_CLIENT_SECRET" in given:
            provider = {
                f"{_OAUTH}.client.endpoint": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
                f"{_OAUTH}.client.secret": _from_environment("AZURE_CLIENT_SECRET"),
            }
            kind = "ClientCredsTokenProvider"
        elif "AZURE_FEDERATED_TOKEN_FILE" in given:
            token_file = os.environ["AZURE_FEDERATED_TOKEN_FILE"]
            provider = {f"{_OAUTH}.msi.tenant": tenant, f"{_OAUTH}.token.file": token_file}
            kind = "WorkloadIdentityTokenProvider"
        else:
            provider, kind = {}, "MsiTokenProvider"
        if "AZURE_CLIENT_ID" in given:
            provider[f"{_OAUTH}.client.id"] = os.environ["AZURE_CLIENT_ID"]
        return conf | provider | {"spark.hadoop.fs.azure.account.oauth.provider.type": f"{_PROVIDERS}.{kind}"}


def _from_environment(name: str) -> str:
    """A value that Hadoop replaces by that of an environment variable, so that it is in no file and no plan."""
    return f"${{env.{name}}}"


@lru_cache(maxsize=4)
def _client(account: str, environment: frozenset[tuple[str, str]]) -> fsspec.AbstractFileSystem:
    from azure.core.credentials import AzureSasCredential  # spares those who have nothing in Azure
    from azure.identity.aio import DefaultAzureCredential
    from azure.storage.blob.aio import BlobServiceClient, LinearRetry

    given = dict(environment)
    credential: Any
    if given.get(KEY):
        credential = given[KEY]
    elif given.get(SIGNATURE):
        credential = AzureSasCredential(given[SIGNATURE].removeprefix("?"))
    else:
        credential = DefaultAzureCredential()
    client = fsspec.filesystem("abfss", account_name=account, anon=True, skip_instance_cache=True)
    # its own service would retry for minutes, and knows no address but Azure's
    client.service_client = BlobServiceClient(
        given.get(Azure.endpoint_variable) or f"https://{account}.blob.core.windows.net",
        credential=credential,
        retry_policy=LinearRetry(backoff=1, retry_total=1),
        connection_timeout=3,
        read_timeout=5,
    )
    return client

"""Google Cloud Storage, by the environment variables that Google's own tools read.

Credentials are Google's default ones: the file in ``GOOGLE_APPLICATION_CREDENTIALS``, the login of ``gcloud auth
application-default login``, or the service account of the machine.
"""

import json
import os
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, Self, cast

import fsspec

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.object_stores.store import Failure, ObjectStore, StoredObject, beyond

CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"


class Google(ObjectStore):
    """Buckets of Google Cloud Storage."""

    name = "Google Cloud Storage"
    form = "gs://bucket/prefix"
    scheme = "gs"
    jars = ("org.apache.hadoop:hadoop-gcp:3.5.0",)
    variables = ("GOOGLE_", "STORAGE_EMULATOR_HOST")
    provider = "Google's application default"
    credentials = f"set {CREDENTIALS} to the file of a service account, or run as one"
    endpoint_variable = "STORAGE_EMULATOR_HOST"

    @classmethod
    def of(cls, path: str) -> Self:
        """The store of any path."""
        return cls()

    @property
    def endpoint(self) -> str | None:
        """The address of an emulator."""
        found = os.environ.get(self.endpoint_variable)
        return f"http://{found}" if found and "://" not in found else found or None

    def check(self, doing: str) -> None:
        """Checks that gcsfs is installed, and that the file with the credentials is there."""
        try:
            import gcsfs  # noqa: F401  spares those who have nothing there
        except ImportError:
            raise IncrementalLoadError(
                f"{doing}: the package gcsfs is not installed",
                rule="files in Google Cloud Storage are reached by it",
                remedy="install incload[google]",
            ) from None
        if (file := os.environ.get(CREDENTIALS)) and not os.access(file, os.R_OK):
            raise IncrementalLoadError(
                f"{doing}: {CREDENTIALS}={file} cannot be read",
                rule="it names the file with the key of a service account",
                remedy="correct the path, or unset it where the machine's own account is used",
            )

    def file_system(self) -> fsspec.AbstractFileSystem:
        """The client of gcsfs, another one when the environment names other credentials or another endpoint."""
        return _client(self.environment)

    def objects(self, prefix: str, after: str | None, upto: str | None, *, nested: bool) -> Iterator[StoredObject]:
        """One request for each thousand objects, which Google lists by name."""
        start = f"{self.bucket(prefix)}/"
        asked: dict[str, Any] = {"prefix": prefix[len(start) :], "maxResults": 1000}
        if after and len(after) > len(start):
            asked["startOffset"] = after.removeprefix(start)
        if not nested:
            asked["delimiter"] = "/"
        client = self.file_system()
        while True:
            page = client.call("GET", "b/{}/o", start.split("/")[2], json_out=True, **asked)
            for item in page.get("items", ()):
                path = start + item["name"]
                if beyond(path, upto):
                    return
                if path == after:  # Google's offset is inclusive
                    continue
                yield StoredObject(path, int(item["size"]), datetime.fromisoformat(item["updated"]), item["etag"])
            if not page.get("nextPageToken"):
                return
            asked["pageToken"] = page["nextPageToken"]

    def failure(self, error: BaseException) -> Failure | None:
        """The meaning of an error of gcsfs, or of Google's libraries under it."""
        from aiohttp import ClientConnectorCertificateError, ClientError  # spares those who have nothing there
        from gcsfs.retry import HttpError
        from google.auth import exceptions as google

        name = type(error).__name__
        if isinstance(error, google.TransportError):
            return Failure("silent", name)
        if isinstance(error, google.GoogleAuthError):
            return Failure("no credentials", name)
        if isinstance(error, ClientConnectorCertificateError):
            return Failure("no trust", name)
        if isinstance(error, (ClientError, TimeoutError, ConnectionError)):
            return Failure("silent", name)
        if isinstance(error, HttpError):
            status = int(error.code or 0)
            return Failure("busy" if status >= 500 or status == 429 else "refused", str(status))
        if isinstance(error, FileNotFoundError):
            return Failure("no bucket" if str(error).startswith("b/") and "/o/" not in str(error) else "no file", "404")
        if isinstance(error, OSError):
            return Failure("refused", "403" if "Forbidden" in str(error) else name)
        return Failure("wrong settings", name) if isinstance(error, ValueError) else None

    def delta_options(self) -> dict[str, str]:
        """The endpoint of an emulator; deltalake finds the credentials itself."""
        options = {"max_retries": "2"}
        if self.endpoint:
            key = {"gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key": "",
                   "private_key_id": ""}  # fmt: skip
            options |= {"google_service_account_key": json.dumps(key), "allow_http": str(not self.tls).lower()}
        return options

    def spark_conf(self) -> dict[str, str]:
        """The configuration of Hadoop's client, which reads both variables itself."""
        conf = {
            "spark.hadoop.fs.gs.impl": "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.gs.impl": "org.apache.hadoop.fs.gs.Gs",
            "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
            # it creates a commit only if there is none, so that several drivers may write
            "spark.delta.logStore.gs.impl": "io.delta.storage.GCSLogStore",
        }
        if project := os.environ.get("GOOGLE_CLOUD_PROJECT"):
            conf["spark.hadoop.fs.gs.project.id"] = project
        return conf


@lru_cache(maxsize=2)
def _client(environment: frozenset[tuple[str, str]]) -> fsspec.AbstractFileSystem:
    # of the core, because the one that fsspec knows asks for the kind of each bucket, and for a minute where it may not
    from gcsfs.core import GCSFileSystem  # spares those who have nothing there

    token = "anon" if Google.endpoint_variable in dict(environment) else "google_default"
    client = GCSFileSystem(token=token, requests_timeout=5, use_listings_cache=False, skip_instance_cache=True)
    return cast(fsspec.AbstractFileSystem, client)

"""S3, by the environment variables that every AWS tool reads. Credentials are never read here.

They come from the provider chain of each client: environment, profile, role.
"""

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import fsspec

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.object_stores.store import Failure, ObjectStore, StoredObject, beyond

AUTHORITIES = "AWS_CA_BUNDLE"
"""The variable that names a file with the certificates of the authorities that S3's certificate may be signed by."""
ENCRYPTION = "AWS_SERVER_SIDE_ENCRYPTION"
"""The variable that names how S3 encrypts what is written, where the bucket's default is not enough."""
KMS_KEY = "AWS_SSE_KMS_KEY_ID"
"""The variable that names the key for it. deltalake reads both variables itself; Spark and s3fs are given them."""
ENCRYPTIONS = {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
"""The valid values of the encryption variable, in S3's notation, each with its name in Hadoop's S3A."""


@dataclass(frozen=True)
class S3Endpoint:
    """An S3 endpoint; None stands for AWS, the provider chain, each client's authorities, the bucket's encryption.

    ``authorities`` is a PEM file with the certificates of authorities, ``encryption`` is one of :data:`ENCRYPTIONS`.
    """

    url: str | None
    region: str | None
    authorities: Path | None = None
    encryption: str | None = None
    kms_key: str | None = None

    @classmethod
    def from_env(cls) -> "S3Endpoint":
        """The endpoint in ``AWS_ENDPOINT_URL[_S3]``, ``AWS_[DEFAULT_]REGION``, ``AWS_CA_BUNDLE`` and for encryption."""
        url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        named = os.environ.get(AUTHORITIES)
        encryption, key = os.environ.get(ENCRYPTION) or None, os.environ.get(KMS_KEY) or None
        authorities = Path(named).absolute() if named else None
        return cls(url, region or ("us-east-1" if url else None), authorities, encryption, key)

    @property
    def tls(self) -> bool:
        """True if the connection is encrypted."""
        return not (self.url or "").startswith("http://")

    def check(self, doing: str) -> None:
        """Checks the file of the authorities and the encryption: each client would report them in its own way."""
        has_key = (self.encryption or "").startswith("aws:")
        if self.encryption not in (None, *ENCRYPTIONS) or (self.kms_key and not has_key):
            raise IncrementalLoadError(
                f"{doing}: {ENCRYPTION} is {self.encryption!r}" + (f", and {KMS_KEY} is set" if self.kms_key else ""),
                rule=f"it is one of {', '.join(ENCRYPTIONS)}, and a key is used with the latter two",
                remedy="correct it, or unset both, so that the bucket's default decides",
            )
        if self.authorities is None:
            return
        try:
            problem = "" if ssl.PEM_HEADER in self.authorities.read_text("ascii") else "holds no certificate"
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read ({type(error).__name__})"
        if problem:
            raise IncrementalLoadError(
                f"{doing}: {AUTHORITIES}={self.authorities} {problem}",
                rule="it names a PEM file with the certificates of the authorities that the endpoint's is signed by",
                remedy="correct the path or the file, or unset it where the endpoint needs no authority of your own",
            )


_AWS_SDK = "2.35.4"
# a silent store costs about ten seconds
_CONFIG = {"connect_timeout": 3, "read_timeout": 5, "retries": {"total_max_attempts": 2, "mode": "standard"}}
_BUSY = ("SlowDown", "Throttling", "RequestTimeout", "RequestTimeTooSkewed")


class S3(ObjectStore):
    """Buckets of S3, or of a store with its protocol."""

    name = "S3"
    form = "s3://bucket/prefix"
    scheme = "s3"
    spellings = ("s3a", "s3n")
    jars = (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        f"software.amazon.awssdk:s3:{_AWS_SDK}",
        f"software.amazon.awssdk:s3-transfer-manager:{_AWS_SDK}",
        f"software.amazon.awssdk:sts:{_AWS_SDK}",
    )
    variables = ("AWS_",)
    provider = "the usual AWS provider chain"
    credentials = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run with a role"
    endpoint_variable = "AWS_ENDPOINT_URL"
    authorities_variable = AUTHORITIES
    # Delta's log store for S3 looks whether a commit is there, and then writes it unconditionally. Its log store for
    # Google is no remedy: S3A sends If-None-Match only for files made by createFile(), and log stores use create().
    one_driver = True

    @classmethod
    def of(cls, path: str) -> Self:
        """The store of any path."""
        return cls()

    @property
    def endpoint(self) -> str | None:
        """The address in ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``."""
        return S3Endpoint.from_env().url

    def check(self, doing: str) -> None:
        """Checks the settings of the endpoint."""
        S3Endpoint.from_env().check(doing)

    def spark_path(self, path: str) -> str:
        """The path with Hadoop's scheme."""
        return f"s3a://{path.removeprefix('s3://')}"

    def file_system(self) -> fsspec.AbstractFileSystem:
        """The client of s3fs, another one when the environment names other credentials or another endpoint."""
        return _client(self.environment)

    def objects(self, prefix: str, after: str | None, upto: str | None, *, nested: bool) -> Iterator[StoredObject]:
        """One request for each thousand objects, which S3 lists by key."""
        start = f"{self.bucket(prefix)}/"
        request: dict[str, Any] = {"Bucket": start.split("/")[2], "Prefix": prefix[len(start) :], "MaxKeys": 1000}
        if after and len(after) > len(start):
            request["StartAfter"] = after.removeprefix(start)
        if not nested:
            request["Delimiter"] = "/"
        client = self.file_system()
        while True:
            page = client.call_s3("list_objects_v2", **request)
            for item in page.get("Contents", ()):
                path = start + item["Key"]
                if beyond(path, upto):
                    return
                yield StoredObject(path, item["Size"], item["LastModified"].astimezone(UTC), item["ETag"].strip('"'))
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def failure(self, error: BaseException) -> Failure | None:
        """The meaning of an error of botocore, or of the OSError that s3fs makes of one."""
        from botocore import exceptions as boto  # spares the processes that only need paths
        from fsspec.exceptions import FSTimeoutError

        name = type(error).__name__
        if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError,
                              boto.ProfileNotFound, boto.TokenRetrievalError)):  # fmt: skip
            return Failure("no credentials", name)
        if isinstance(error, boto.SSLError) and "certificate" in str(error).lower():
            return Failure("no trust", name)
        if isinstance(error, (boto.EndpointConnectionError, boto.ConnectionError, boto.HTTPClientError, FSTimeoutError,
                              TimeoutError, ConnectionError)):  # fmt: skip
            return Failure("silent", name)
        if isinstance(error, (OSError, boto.ClientError)):
            code, status = answer(error)
            if status >= 500 or code in _BUSY:
                return Failure("busy", code)
            if code == "NoSuchBucket":
                return Failure("no bucket", code)
            if isinstance(error, FileNotFoundError) or code in ("404", "FileNotFoundError"):
                return Failure("no file", code)
            return Failure("refused", code)
        return Failure("wrong settings", name) if isinstance(error, boto.BotoCoreError) else None

    def now(self, path: str) -> datetime:
        """The time by the clock that sets the modification times of objects, from an answer about this one."""
        bucket = self.bucket(path)
        # a listing of the prefix: with rights on a prefix alone, a request for the whole bucket is refused
        request = {"Bucket": bucket.split("/")[2], "Prefix": path[len(bucket) + 1 :], "MaxKeys": 1}
        answered = self.file_system().call_s3("list_objects_v2", **request)
        return parsedate_to_datetime(answered["ResponseMetadata"]["HTTPHeaders"]["date"])

    def delta_options(self) -> dict[str, str]:
        """Endpoint, region and authorities; deltalake finds the credentials itself."""
        from dagster_deltalake import S3Config  # spares Spark's supervisor, which needs no deltalake
        from dagster_deltalake.config import ClientConfig

        endpoint = S3Endpoint.from_env()
        store = S3Config(endpoint=endpoint.url, region=endpoint.region)
        client = ClientConfig(allow_http=not endpoint.tls)
        given = store.model_dump(exclude_none=True, exclude={"provider"}) | client.model_dump(exclude_none=True)
        trusted = {"certificate_path": endpoint.authorities} if endpoint.authorities else {}
        return {name: str(value) for name, value in (given | trusted | {"max_retries": 2}).items()}

    def spark_conf(self) -> dict[str, str]:
        """The configuration of S3A."""
        return _spark_conf(S3Endpoint.from_env())


@lru_cache(maxsize=2)
def _client(environment: frozenset[tuple[str, str]]) -> fsspec.AbstractFileSystem:
    names = {name for name, _ in environment}
    config: dict[str, Any] = dict(_CONFIG)
    if names & {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}:
        # stores other than AWS rarely answer to bucket.host
        config["s3"] = {"addressing_style": "path"}
    endpoint = S3Endpoint.from_env()
    written = {"ServerSideEncryption": endpoint.encryption, "SSEKMSKeyId": endpoint.kms_key}
    client = fsspec.filesystem(
        "s3",
        anon=False,
        config_kwargs=config,
        s3_additional_kwargs={name: value for name, value in written.items() if value},
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    client.retries = 1  # botocore's two attempts are enough; s3fs would make five of each
    return client


def answer(error: BaseException) -> tuple[str, int]:
    """The S3 error code and HTTP status behind an exception, or the name of the exception and 0."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", "")) or type(error).__name__
    return code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _spark_conf(endpoint: S3Endpoint) -> dict[str, str]:
    prefix = "spark.hadoop.fs.s3a"
    conf = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{prefix}.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        # The defaults take minutes to give up on an endpoint that is down.
        f"{prefix}.attempts.maximum": "2",
        f"{prefix}.retry.limit": "2",
        f"{prefix}.retry.interval": "200ms",
    }
    if endpoint.encryption:
        conf[f"{prefix}.encryption.algorithm"] = ENCRYPTIONS[endpoint.encryption]
    if endpoint.kms_key:
        conf[f"{prefix}.encryption.key"] = endpoint.kms_key
    if endpoint.region:
        conf[f"{prefix}.endpoint.region"] = endpoint.region
    if endpoint.url:
        conf[f"{prefix}.endpoint"] = endpoint.url
        conf[f"{prefix}.path.style.access"] = "true"
        conf[f"{prefix}.connection.ssl.enabled"] = str(endpoint.tls).lower()
    return conf

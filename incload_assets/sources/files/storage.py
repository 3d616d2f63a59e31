"""The store behind a path: a local folder or S3, through fsspec.

fsspec with s3fs, because one small interface then opens, reads parts of and lists both kinds of store, S3 requests go
out many at a time without threads of our own, and pyarrow reads Parquet footers through it. Credentials come only from
boto's provider chain (environment, profile, role), the endpoint from ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``,
the authorities of its certificate from ``AWS_CA_BUNDLE``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import fsspec
from botocore import exceptions as boto
from fsspec.exceptions import FSTimeoutError

from incload_assets.platform.errors import IncrementalLoadError, SourceChanged, SourceUnavailable, SourceUnreadable
from incload_assets.platform.object_store import AUTHORITIES, S3Endpoint, is_s3

# a silent store costs about ten seconds
_S3_CONFIG = {"connect_timeout": 3, "read_timeout": 5, "retries": {"total_max_attempts": 2, "mode": "standard"}}

_UNAVAILABLE = (
    boto.EndpointConnectionError, boto.ConnectionError, boto.HTTPClientError, FSTimeoutError, TimeoutError,
    ConnectionError,
)  # fmt: skip
_NO_CREDENTIALS = (
    boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError, boto.ProfileNotFound,
    boto.TokenRetrievalError,
)  # fmt: skip

_LOCAL_REFUSALS = ("PermissionError", "IsADirectoryError", "NotADirectoryError", "FileNotFoundError")
_BUSY = ("SlowDown", "Throttling", "RequestTimeout", "RequestTimeTooSkewed")


def store_of(path: str) -> fsspec.AbstractFileSystem:
    """The file system that holds a full path."""
    if not is_s3(path):
        return fsspec.filesystem("file")
    # a new client when the environment names other credentials or another endpoint
    return _s3_client(frozenset(item for item in os.environ.items() if item[0].startswith("AWS_")))


@lru_cache(maxsize=2)
def _s3_client(environment: frozenset[tuple[str, str]]) -> fsspec.AbstractFileSystem:
    names = {name for name, _ in environment}
    config: dict[str, Any] = dict(_S3_CONFIG)
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


def default_encryption(path: str) -> str | None:
    """The encryption of what is written into an S3 bucket without further options; None if there is none.

    Raises SourceUnreadable if the account lacks ``s3:GetEncryptionConfiguration``, or there is no bucket.
    """
    bucket = path.removeprefix("s3://").partition("/")[0]
    with store_errors("default encryption", f"s3://{bucket}"):
        try:
            found = store_of(path).call_s3("get_bucket_encryption", Bucket=bucket)
        except OSError as error:
            if _answer(error)[0] != "ServerSideEncryptionConfigurationNotFoundError":
                raise
            return None
    rules = found["ServerSideEncryptionConfiguration"]["Rules"]
    names = [rule.get("ApplyServerSideEncryptionByDefault", {}).get("SSEAlgorithm") for rule in rules]
    return next((str(name) for name in names if name), None)


@contextmanager
def store_errors(table_name: str, place: str, file: str | None = None) -> Iterator[None]:
    """Turns the errors of a store into errors of this package; ``file`` is the key of a file that was listed before.

    Raises SourceChanged if it has vanished, SourceUnavailable if the store does not answer, or is busy,
    SourceUnreadable if it refuses, or its certificate is not trusted. Only the error's code is shown: its full text may
    contain secrets.
    """
    if is_s3(place):
        S3Endpoint.from_env().check(f"{table_name}: {place}")
    try:
        yield
    except IncrementalLoadError:
        raise
    except _NO_CREDENTIALS as error:
        raise SourceUnreadable(
            f"{table_name}: no usable S3 credentials for {place} ({type(error).__name__})",
            rule="credentials come from the provider chain: environment, profile or role",
            remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run with a role",
        ) from None
    except _UNAVAILABLE as error:
        endpoint = f", S3 endpoint {_without_password(S3Endpoint.from_env().url or 'AWS')}" if is_s3(place) else ""
        if isinstance(error, boto.SSLError) and "certificate" in str(error).lower():
            raise SourceUnreadable(
                f"{table_name}: the TLS handshake for {place} fails ({type(error).__name__}{endpoint})",
                rule=f"the endpoint's certificate is signed by an authority in {AUTHORITIES}, or else by a public one, "
                "and names the endpoint's host",
                remedy=f"set {AUTHORITIES} to the file with the certificate of the endpoint's authority",
            ) from None
        raise SourceUnavailable(
            f"{table_name}: no answer for {place} ({type(error).__name__}{endpoint})",
            rule="the store of a table's files answers",
            remedy="the load is tried again; if it stays so, check the network and AWS_ENDPOINT_URL",
        ) from None
    except (OSError, boto.ClientError) as error:
        code, status = _answer(error)
        if file is not None and isinstance(error, FileNotFoundError) and code != "NoSuchBucket":
            raise SourceChanged(
                f"{table_name}: the file {file} has vanished",
                rule="a file that was seen is there until it was read",
                remedy="the load is tried again",
            ) from None
        raise _refusal(table_name, file or place, code, status, on_s3=is_s3(place)) from None
    except boto.BotoCoreError as error:
        raise SourceUnreadable(
            f"{table_name}: {place} cannot be read ({type(error).__name__})",
            rule="the store is reached with the settings of the environment",
            remedy="check the AWS_* settings",
        ) from None


def _answer(error: Exception) -> tuple[str, int]:
    """The S3 error code and HTTP status behind an exception, or the name of the exception and 0."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", "")) or type(error).__name__
    return code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _refusal(table_name: str, place: str, code: str, status: int, *, on_s3: bool) -> IncrementalLoadError:
    if not on_s3 and code in _LOCAL_REFUSALS:
        return SourceUnreadable(
            f"{table_name}: {place} cannot be read ({code})",
            rule="whoever loads may read all files and folders of the path",
            remedy="give the user who loads the right to read it",
        )
    if not on_s3 or status >= 500 or code in _BUSY:
        return SourceUnavailable(
            f"{table_name}: {place} cannot be read now ({code})",
            rule="the store of a table's files answers",
            remedy="the load is tried again; if it stays so, check the store or the mount",
        )
    if code in ("NoSuchBucket", "404", "FileNotFoundError"):
        return SourceUnreadable(
            f"{table_name}: there is no {place} ({code})",
            rule="the bucket that a path names exists",
            remedy="create it, or correct the path",
        )
    return SourceUnreadable(
        f"{table_name}: S3 refuses {place} ({code})",
        rule="the loader's credentials may list and read the bucket",
        remedy="check AWS_ACCESS_KEY_ID, AWS_PROFILE or the role, and the bucket's policy",
    )


def _without_password(endpoint: str) -> str:
    scheme, _, rest = endpoint.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest

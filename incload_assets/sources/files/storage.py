"""The store behind a path: a local folder or an object store, through fsspec.

fsspec, because one small interface then opens, reads parts of and lists all kinds of store, requests go out many at a
time without threads of our own, and pyarrow reads Parquet footers through it. Credentials, endpoint and authorities
come only from the environment, as the module of each kind says.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import fsspec

from incload_assets.platform.errors import IncrementalLoadError, SourceChanged, SourceUnavailable, SourceUnreadable
from incload_assets.platform.object_stores import Failure, ObjectStore, in_object_store, object_store
from incload_assets.platform.object_stores.s3 import S3, answer

_LOCAL_REFUSALS = ("PermissionError", "IsADirectoryError", "NotADirectoryError", "FileNotFoundError")


def store_of(path: str) -> fsspec.AbstractFileSystem:
    """The file system that holds a full path."""
    return object_store(path).file_system() if in_object_store(path) else fsspec.filesystem("file")


def default_encryption(path: str) -> str | None:
    """The encryption of what is written into a bucket without further options; None if there is none.

    Azure and Google encrypt everything. Raises SourceUnreadable if the account lacks ``s3:GetEncryptionConfiguration``,
    or there is no bucket.
    """
    store = object_store(path)
    if not isinstance(store, S3):
        return f"{store.name} encrypts all that it keeps"
    bucket = store.bucket(path)
    with store_errors("default encryption", bucket):
        try:
            found = store.file_system().call_s3("get_bucket_encryption", Bucket=bucket.removeprefix("s3://"))
        except OSError as error:
            if answer(error)[0] != "ServerSideEncryptionConfigurationNotFoundError":
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
    store = object_store(place) if in_object_store(place) else None
    if store is not None:
        store.check(f"{table_name}: {place}")
    try:
        yield
    except IncrementalLoadError:
        raise
    except Exception as error:
        if store is None and not isinstance(error, OSError):
            raise
        failure = _local(error) if store is None else store.failure(error)
        if failure is None:
            raise
        if file is not None and failure.kind == "no file":
            raise SourceChanged(
                f"{table_name}: the file {file} has vanished",
                rule="a file that was seen is there until it was read",
                remedy="the load is tried again",
            ) from None
        raise _error(table_name, place, file or place, failure, store) from None


def _local(error: Exception) -> Failure:
    name = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return Failure("no file", name)
    return Failure("refused" if name in _LOCAL_REFUSALS else "busy", name)


def _error(table_name: str, place: str, what: str, failure: Failure, store: ObjectStore | None) -> IncrementalLoadError:
    if store is None and failure.code in _LOCAL_REFUSALS:
        return SourceUnreadable(
            f"{table_name}: {what} cannot be read ({failure.code})",
            rule="whoever loads may read all files and folders of the path",
            remedy="give the user who loads the right to read it",
        )
    if store is None or failure.kind == "busy":
        return SourceUnavailable(
            f"{table_name}: {what} cannot be read now ({failure.code})",
            rule="the store of a table's files answers",
            remedy="the load is tried again; if it stays so, check the store or the mount",
        )
    address = _without_password(store.endpoint or ("AWS" if isinstance(store, S3) else "its own"))
    where = f"{failure.code}, {store.name} endpoint {address}"
    match failure.kind:
        case "no credentials":
            return SourceUnreadable(
                f"{table_name}: no usable {store.name} credentials for {place} ({failure.code})",
                rule="credentials come from the environment of the process, by the cloud's own names",
                remedy=store.credentials,
            )
        case "no trust":
            return SourceUnreadable(
                f"{table_name}: the TLS handshake for {place} fails ({where})",
                rule=f"the endpoint's certificate is signed by an authority in {store.authorities_variable}, or else "
                "by a public one, and names the endpoint's host",
                remedy=f"set {store.authorities_variable} to the file with the certificate of the endpoint's authority",
            )
        case "silent":
            return SourceUnavailable(
                f"{table_name}: no answer for {place} ({where})",
                rule="the store of a table's files answers",
                remedy=f"the load is tried again; if it stays so, check the network and {store.endpoint_variable}",
            )
        case "wrong settings":
            return SourceUnreadable(
                f"{table_name}: {place} cannot be read ({failure.code})",
                rule="the store is reached with the settings of the environment",
                remedy=f"check the settings {', '.join(f'{name}*' for name in store.variables)}",
            )
        case "no bucket" | "no file":
            return SourceUnreadable(
                f"{table_name}: there is no {what} ({failure.code})",
                rule="the bucket that a path names exists",
                remedy="create it, or correct the path",
            )
    return SourceUnreadable(
        f"{table_name}: {store.name} refuses {what} ({failure.code})",
        rule="the loader's credentials may list and read the bucket",
        remedy=f"{store.credentials}; check that account's rights on the bucket",
    )


def _without_password(endpoint: str) -> str:
    scheme, _, rest = endpoint.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest

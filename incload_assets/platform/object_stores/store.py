"""The contract of an object store: how each client reaches it, and what the errors of its fsspec client mean."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, Self

import fsspec

DRIVER_FOLDER = "_driver"
"""Folder under a lake's root with the registration of its Spark driver, where only one may commit."""
Kind = Literal["no credentials", "no trust", "silent", "busy", "no bucket", "no file", "refused", "wrong settings"]
"""The step at which a client of an object store fails: its login, the certificate, the answer, the place, a right."""


@dataclass(frozen=True)
class Failure:
    """An error of a client: its kind, and a code that may be shown, unlike the text, which may contain secrets."""

    kind: Kind
    code: str


@dataclass(frozen=True)
class StoredObject:
    """An object as listed: full path, bytes, modification time (aware, UTC), and the store's tag of the content."""

    path: str
    size: int
    modified: datetime
    etag: str


class ObjectStore(ABC):
    """A kind of object store, for one path in it.

    A new kind is a subclass in a module of its own, named in ``known.py``. It has the same paths in all clients, except
    where Spark's have another scheme. Credentials are the clients' own business: where Hadoop's cannot find them by
    itself, :meth:`spark_conf` names the environment variable, never its value.
    """

    name: ClassVar[str]
    """The store's name, for messages."""
    form: ClassVar[str]
    """A path with its parts, for messages."""
    scheme: ClassVar[str]
    """The scheme of its paths, with which they are stored and compared."""
    spellings: ClassVar[tuple[str, ...]] = ()
    """Other schemes that mean the same path."""
    jars: ClassVar[tuple[str, ...]]
    """The Maven coordinates of its Hadoop client."""
    variables: ClassVar[tuple[str, ...]]
    """Beginnings of the names of environment variables that its clients read."""
    provider: ClassVar[str]
    """The place where its clients find credentials."""
    credentials: ClassVar[str]
    """The instruction for people whose clients find no credentials."""
    endpoint_variable: ClassVar[str]
    """The variable with the address of a store that is not the cloud's own."""
    authorities_variable: ClassVar[str] = "SSL_CERT_FILE"
    """The variable that names a file with the certificates of authorities."""
    one_driver: ClassVar[bool] = False
    """True if commits of Spark's Delta are safe only while a single Spark driver makes them."""

    @classmethod
    @abstractmethod
    def of(cls, path: str) -> Self:
        """The store of a full path."""

    @property
    @abstractmethod
    def endpoint(self) -> str | None:
        """The address of the store, if it is not the cloud's own; it may contain a password."""

    @property
    def tls(self) -> bool:
        """True if the connection is encrypted."""
        return not (self.endpoint or "").startswith("http://")

    def check(self, doing: str) -> None:  # noqa: B027  a kind need not have anything to check
        """Raises IncrementalLoadError, which begins with ``doing``, for settings that no client could use."""

    def spark_path(self, path: str) -> str:
        """A path of the store for Spark's file systems."""
        return path

    def bucket(self, path: str) -> str:
        """The path of the bucket, or container with its account, that a path is in."""
        return "/".join(path.split("/")[:3])

    @property
    def environment(self) -> frozenset[tuple[str, str]]:
        """The environment variables that its clients read: with others another client is made."""
        return frozenset(item for item in os.environ.items() if item[0].startswith(self.variables))

    @abstractmethod
    def file_system(self) -> fsspec.AbstractFileSystem:
        """The fsspec client, which gives up within seconds where the store is silent."""

    def full_path(self, name: str) -> str:
        """The path of an object that the fsspec client names."""
        return f"{self.scheme}://{name}"

    @abstractmethod
    def objects(self, prefix: str, after: str | None, upto: str | None, *, nested: bool) -> Iterator[StoredObject]:
        """The objects whose paths begin with ``prefix``, sorted by path.

        Args:
            prefix: The beginning of full paths.
            after: Only later paths, if the store can begin there.
            upto: Only paths up to this one and those that begin with it.
            nested: Whether those in folders below the prefix's are listed, too.
        """

    @abstractmethod
    def failure(self, error: BaseException) -> Failure | None:
        """The meaning of an error of the fsspec client; None for one that has nothing to do with the store."""

    @abstractmethod
    def delta_options(self) -> dict[str, str]:
        """The options for deltalake, with few retries: by default it retries for minutes when a store is down."""

    @abstractmethod
    def spark_conf(self) -> dict[str, str]:
        """The configuration of a Spark that reads and writes there."""


def beyond(path: str, upto: str | None) -> bool:
    """True if a path is sorted after ``upto`` and does not begin with it."""
    return upto is not None and path > upto and not path.startswith(upto)

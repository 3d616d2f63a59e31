"""The encryption of data that a table's loads send and keep, by configurations and the store's own word."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NoReturn
from urllib.parse import urlsplit

from incload_assets.contract.protection import Encrypted
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.platform.databases import Database
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.object_stores import in_object_store, object_store
from incload_assets.platform.object_stores.s3 import S3Endpoint
from incload_assets.platform.schema_registry import SchemaRegistry
from incload_assets.platform.settings import Settings
from incload_assets.sources.database.source import DatabaseSource
from incload_assets.sources.debezium.debezium import Debezium
from incload_assets.sources.decorator import SourceDecorator
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.storage import default_encryption
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.several import Several

ENCRYPTED_PROTOCOLS = {"SSL", "SASL_SSL"}


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection that loads of a table use, or a place where they keep something.

    Args:
        what: Its other end, or the place, for people.
        encrypted: Whether it is encrypted, or stays on this machine; None: that is unknown.
        why: Why not, or why it is unknown; of a place that is encrypted, how.
    """

    what: str
    encrypted: bool | None
    why: str = ""


def connections(table: Table, settings: Settings) -> list[Connection]:
    """The connections of a table's loads: to the object store, databases, Kafka, schema registries and Spark."""
    parts = list(_parts(table.source))
    found = [
        *_object_store(parts, settings),
        *(_database(name) for name in sorted({name for part in parts for name in _databases(part)})),
        *(_kafka(name) for name in sorted({part.cluster for part in parts if isinstance(part, Kafka)})),
        *(_registry(name) for name in sorted({p.registry for p in parts if isinstance(p, Kafka) and p.registry})),
    ]
    if settings.spark_mode == "remote":
        address = urlsplit(settings.spark)
        encrypted = "use_ssl=true" in address.path.lower() or _is_here(address.hostname)
        found.append(Connection(what="Spark", encrypted=encrypted, why="INCLOAD_SPARK has no use_ssl=true"))
    return found


def stores(table: Table, settings: Settings) -> list[Connection]:
    """The places where a table's rows, its files and the keys of its persons are kept.

    A bucket of S3 is asked; whether a disk is encrypted is taken from the settings.
    """
    kept = [settings.lake_root]
    if any(isinstance(each, Encrypted) for each in table.contract.protections.values()):
        kept.append(settings.person_keys_root or settings.lake_root)
    read, written = {*map(_place, _paths([*_parts(table.source)], settings))}, S3Endpoint.from_env().encryption
    places = sorted({*map(_place, kept)} | read)
    return [_store(place, settings.encryption_at_rest, None if place in read else written) for place in places]


def _place(path: str) -> str:
    """The bucket of a path; the same name for all folders."""
    return object_store(path).bucket(path) if in_object_store(path) else "disks"


def _store(place: str, said: str, written: str | None) -> Connection:
    """A place; ``written`` is the encryption that is asked for with each file, if only the loader writes there."""
    why = "whether they are encrypted cannot be seen from here"
    if in_object_store(place):
        try:
            if kind := (written if place.startswith("s3://") else None) or default_encryption(place):
                return Connection(what=place, encrypted=True, why=kind)
            return Connection(what=place, encrypted=False, why="the bucket has no default encryption")
        except IncrementalLoadError as error:
            why = str(error)
    return Connection(what=place, encrypted=True if said else None, why=f"said to be {said}" if said else why)


def _paths(parts: list[Source], settings: Settings) -> list[str]:
    return [part.path.replace("{landing}", settings.landing_root) for part in parts if isinstance(part, Files)]


def _parts(source: Source) -> Iterator[Source]:
    """A source and the sources inside of it."""
    yield source
    inner = [*source.sources.values()] if isinstance(source, Several) else []
    for each in [*inner, *([source.source] if isinstance(source, SourceDecorator) else [])]:
        yield from _parts(each)


def _databases(part: Source) -> list[str]:
    if isinstance(part, DatabaseSource):
        return [part.database]
    return [part.slot.database] if isinstance(part, Debezium) and part.slot is not None else []


def _object_store(parts: list[Source], settings: Settings) -> Iterator[Connection]:
    paths = [path for path in (*_paths(parts, settings), settings.lake_root) if in_object_store(path)]
    for store in {store.name: store for store in map(object_store, paths)}.values():
        encrypted = store.tls or _is_here(urlsplit(store.endpoint or "").hostname)
        yield Connection(what=store.name, encrypted=encrypted, why="the endpoint's address begins with http://")


def _database(name: str) -> Connection:
    def found() -> tuple[bool, str]:
        database = Database.named(name, _unconfigured)
        encrypted, why = database.encrypted
        return encrypted or _is_here(database.host), why

    return _asked(f"database {name}", found)


def _kafka(name: str) -> Connection:
    def found() -> tuple[bool, str]:
        cluster = KafkaCluster.named(name, _unconfigured)
        protocol = {"security.protocol": "PLAINTEXT", **cluster.options}["security.protocol"].upper()
        hosts = [urlsplit(f"//{server.strip()}").hostname for server in cluster.servers.split(",")]
        return protocol in ENCRYPTED_PROTOCOLS or all(map(_is_here, hosts)), f"security.protocol is {protocol}"

    return _asked(f"Kafka {name}", found)


def _registry(name: str) -> Connection:
    def found() -> tuple[bool, str]:
        address = urlsplit(SchemaRegistry.named(name).url)
        return address.scheme == "https" or _is_here(address.hostname), "its address begins with http://"

    return _asked(f"schema registry {name}", found)


class _ProvidedError(Exception):
    """A connection that the environment does not configure: the code location provides it, and may start a server."""


def _unconfigured() -> NoReturn:
    raise _ProvidedError


def _asked(what: str, found: Callable[[], tuple[bool, str]]) -> Connection:
    try:
        encrypted, why = found()
    except _ProvidedError:
        return Connection(what=what, encrypted=None, why="the environment does not configure it")
    except IncrementalLoadError as error:
        return Connection(what=what, encrypted=None, why=str(error))
    return Connection(what=what, encrypted=encrypted, why=why)


def _is_here(host: str | None) -> bool:
    """True if a host is this machine, so that nothing leaves it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False

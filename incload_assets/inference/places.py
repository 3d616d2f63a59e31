"""Places of rows as a person types them: files, a table of a database, a topic."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from incload_assets.platform import databases, kafka
from incload_assets.platform.dialects.dialect import Dialect
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.object_stores import STORES, in_object_store, kind_of, with_own_scheme

FORMS = ", ".join(
    ["a file, a folder", *(kind.form for kind in STORES), "DATABASE.TABLE", "postgresql://host/database/schema.table",
     "mariadb://host/database/table", "CLUSTER.TOPIC or kafka://host:port/topic"]
)  # fmt: skip
"""The forms of a place, for the help and for errors."""


_HIDDEN = "<the password, or secret:NAME>"


@dataclass(frozen=True)
class FilesAt:
    """A file, a folder, or a prefix in an object store."""

    path: str


@dataclass(frozen=True)
class TableAt:
    """A table of a database by the database's name in the environment; ``environment``: lines that configure it."""

    database: str
    table: str
    environment: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class TopicAt:
    """A topic of a Kafka cluster by the cluster's name in the environment; ``environment``: lines that configure it."""

    cluster: str
    topic: str
    environment: tuple[str, ...] = field(default=(), repr=False)


Place = FilesAt | TableAt | TopicAt


def place_of(given: str, here: Path) -> Place:
    """The place that a person means; a path is relative to ``here``.

    An address that the environment has no name for gets one: it is then configured for this process, and
    ``environment`` has the lines that a project needs, without a password.

    Raises:
        IncrementalLoadError: There is no such file, and no database or cluster of that name.
    """
    if kind_of(given) is not None:
        return FilesAt(with_own_scheme(given))
    if dialect := databases.BY_SCHEME.get(given.partition("://")[0]):
        return _table_at(dialect, urlsplit(given), given)
    if given.startswith("kafka://"):
        return _topic_at(urlsplit(given))
    if (here / given).expanduser().exists():
        return FilesAt(str((here / Path(given).expanduser()).resolve()))
    name, dot, rest = given.partition(".")
    known = [kind for kind, knows in (("database", databases.knows), ("cluster", kafka.knows)) if knows(name.lower())]
    if not dot or not rest or len(known) != 1:
        why = f"{name!r} is the name of a database and of a Kafka cluster" if known else "it is none of these"
        raise IncrementalLoadError(
            f"--from {_shown(given)}: {why}",
            rule=f"it is {FORMS}; DATABASE and CLUSTER are names in INCLOAD_DATABASE_<NAME>_URL and "
            "INCLOAD_KAFKA_<NAME>_SERVERS",
            remedy=f"write postgresql://{name}/{rest} or kafka://{name}/{rest}"
            if known
            else "correct the path, or set these variables in .env",
        )
    return TableAt(name.lower(), rest) if known == ["database"] else TopicAt(name.lower(), rest)


def _table_at(dialect: Dialect, url: SplitResult, given: str) -> TableAt:
    catalog, _, table = unquote(url.path.removeprefix("/")).partition("/")
    host = url.hostname or ""
    if not table and databases.knows(host):  # postgresql://shop/public.orders
        return TableAt(host, catalog)
    if not host or not catalog or not table:
        raise IncrementalLoadError(
            f"--from {_shown(given)}: the address lacks the host, the database or the table",
            rule=f"it is {url.scheme}://user@host:port/database/table, or database/schema.table",
            remedy=f"add what is missing; the password belongs in {dialect.account[1]}",
        )
    place = f"{host}:{url.port or dialect.port}/{catalog}"
    for name, known in _configured("INCLOAD_DATABASE_", "_URL").items():
        scheme, _, rest = known.partition("?")[0].rstrip("/").partition("://")
        if databases.BY_SCHEME.get(scheme) is dialect and rest in (place, place.replace(f":{dialect.port}/", "/")):
            return TableAt(name, table)
    name = _name(catalog)
    bare = f"{url.scheme}://{place}"
    lines = {"URL": f"{bare}?{url.query}" if url.query else bare}
    lines["USER"] = url.username or os.environ.get(dialect.account[0]) or os.environ.get("USER", "")
    secret = unquote(url.password or "") or os.environ.get(dialect.account[1], "")
    prefix = f"INCLOAD_DATABASE_{name.upper()}_"
    os.environ |= {f"{prefix}{part}": value for part, value in lines.items()} | {f"{prefix}PASSWORD": secret}
    shown = [*(f"{prefix}{part}={value}" for part, value in lines.items()), f"{prefix}PASSWORD={_HIDDEN}"]
    return TableAt(name, table, tuple(shown))


def _topic_at(url: SplitResult) -> TopicAt:
    servers, topic = url.netloc.rpartition("@")[2], url.path.strip("/")
    if not servers or not topic:
        raise IncrementalLoadError(
            "--from kafka://…: the address lacks the servers or the topic",
            rule="it is kafka://host:port/topic, or kafka://CLUSTER/topic",
            remedy="add what is missing; options such as passwords belong in INCLOAD_KAFKA_<NAME>_OPTIONS",
        )
    if kafka.knows(servers):
        return TopicAt(servers, topic)
    for name, known in _configured("INCLOAD_KAFKA_", "_SERVERS").items():
        if known == servers:
            return TopicAt(name, topic)
    name = _name(re.split(r"[.-]", topic)[0])
    os.environ[f"INCLOAD_KAFKA_{name.upper()}_SERVERS"] = servers
    os.environ.setdefault("INCLOAD_KAFKA", "true")
    lines = ("INCLOAD_KAFKA=true", f"INCLOAD_KAFKA_{name.upper()}_SERVERS={servers}")
    return TopicAt(name, topic, lines)


def _configured(begin: str, end: str) -> dict[str, str]:
    """The values of the environment's variables by the name within theirs, in lower case."""
    return {
        key[len(begin) : -len(end)].lower(): value
        for key, value in os.environ.items()
        if key.startswith(begin) and key.endswith(end) and len(key) > len(begin + end)
    }


def _name(text: str) -> str:
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return made if made[:1].isalpha() else f"db_{made}"


def _shown(given: str) -> str:
    """The text that was typed, without an account."""
    return re.sub(r"//[^/@]*@", "//***@", given) if not in_object_store(given) else given

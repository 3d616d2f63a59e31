"""The names of sources and tables as datasets, by OpenLineage's naming conventions.

A dataset is the same for all windows: of files, the folder that holds the files of all windows. A database or a Kafka
cluster that the environment does not configure is called by its declared name, in place of its host.
"""

from dataclasses import dataclass
from functools import singledispatch
from itertools import takewhile
from typing import NoReturn
from urllib.parse import urlsplit

from openlineage.client.naming import dataset as naming

from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.platform.databases import POSTGRES, Database
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.sources.database.source import DatabaseSource
from incload_assets.sources.decorator import SourceDecorator
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.template import Template
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.several import Several
from incload_assets.sources.upstream.tables import Tables, read_from


@dataclass(frozen=True, order=True)
class DatasetName:
    """The name of a dataset: ``shop.public.prices`` in the namespace ``postgres://db.example:5432``."""

    namespace: str
    name: str

    @classmethod
    def by(cls, convention: naming.DatasetNaming) -> "DatasetName":
        """The name by one of OpenLineage's conventions."""
        return cls(convention.get_namespace(), convention.get_name())

    @classmethod
    def at(cls, uri: str) -> "DatasetName":
        """The name of a folder: ``s3://lake/prod/orders`` is ``prod/orders`` in the namespace ``s3://lake``."""
        parts = urlsplit(uri)
        if not parts.scheme:
            return cls.by(naming.LocalFileSystem(uri))
        return cls(f"{parts.scheme.replace('s3a', 's3')}://{parts.netloc}", parts.path.strip("/") or "/")


def table_dataset(table: Table, lake: Lake) -> DatasetName:
    """The dataset of a table of the lake."""
    return DatasetName.at(lake.table_uri(table.key.path))


def source_datasets(table: Table, lake: Lake) -> list[DatasetName]:
    """The datasets that a table is loaded from."""
    if isinstance(table.source, Tables):
        return [DatasetName.at(read_from(lake).table_uri(each.path)) for each in table.source.of]
    return _datasets(table.source, table.name)


@singledispatch
def _datasets(source: Source, table_name: str) -> list[DatasetName]:
    """The datasets of a source; of one of the project's own, its kind and what it says of itself."""
    return [DatasetName(type(source).__name__.lower(), str(source))]


@_datasets.register
def _files(source: Files, table_name: str) -> list[DatasetName]:
    parts = Template.parse(table_name, source.path, current_settings().landing_root).parts
    fixed = "".join(part.text for part in takewhile(lambda part: part.kind == "text", parts))
    return [DatasetName.at(fixed.rpartition("/")[0] or "/")]


@_datasets.register
def _kafka(source: Kafka, table_name: str) -> list[DatasetName]:
    try:
        first = KafkaCluster.named(source.cluster, _by_the_environment).servers.split(",")[0].strip()
    except IncrementalLoadError:
        first = source.cluster
    host, _, port = first.rpartition(":")
    return [DatasetName.by(naming.Kafka(host or port, port if host else "9092", source.topic))]


@_datasets.register
def _database(source: DatabaseSource, table_name: str) -> list[DatasetName]:
    schema, _, name = source.table.rpartition(".")
    try:
        database = Database.named(source.database, _by_the_environment)
        dialect, host, port, catalog = database.dialect, database.host, database.port, database.catalog
    except IncrementalLoadError:
        dialect, host, port, catalog = POSTGRES, source.database, POSTGRES.port, source.database
    if not dialect.schema:
        return [DatasetName.by(naming.MySQL(host, str(port), schema or catalog, name))]
    return [DatasetName.by(naming.Postgres(host, str(port), catalog, schema or dialect.schema, name))]


@_datasets.register
def _of_another(source: SourceDecorator, table_name: str) -> list[DatasetName]:
    return _datasets(source.source, table_name)


@_datasets.register
def _several(source: Several, table_name: str) -> list[DatasetName]:
    return [found for part in source.sources.values() for found in _datasets(part, table_name)]


def _by_the_environment() -> NoReturn:
    """In place of a provider, which may start a server: a name is not worth that."""
    raise IncrementalLoadError("not configured")

"""Where the Delta tables are, how Spark names them, and what is read of them without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from dagster_deltalake import S3Config
from dagster_deltalake.config import ClientConfig
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from resources.failures import translate
from resources.object_store import S3Endpoint
from resources.settings import Settings

LOG_FOLDER = "_changes"
"""Folder under the lake's root that holds the change log of each table."""
CUTS_FOLDER = "_cuts"
"""Likewise, where the windows of tables end whose sources have no reliable times."""
REFERENCES_FOLDER = "_references"
"""Likewise, what is known of the references from derived tables to others."""
OWN_FOLDERS = (LOG_FOLDER, CUTS_FOLDER, REFERENCES_FOLDER)
"""All folders of the lake that hold no tables of people's own."""


@dataclass(frozen=True)
class Lake:
    """The Delta tables under one root.

    Reading small facts (does it exist, its version, its transaction versions, its schema) needs no Spark:
    deltalake reads them in milliseconds, with the configuration of dagster-deltalake. Neither that package's resource,
    which takes longer to make than a table to open, nor its IO manager is used: it deletes other partitions than the
    one it writes.

    Args:
        root: A folder, or ``s3://bucket/prefix``, without a trailing slash.

    Example:
        >>> lake = Lake("s3://lake/prod")
        >>> lake.table_uri(["retail", "orders"])
        's3://lake/prod/retail/orders'
        >>> lake.sql_name(lake.log_uri(["orders"]))
        'delta.`s3a://lake/prod/_changes/orders`'
    """

    root: str

    @classmethod
    def of(cls, settings: Settings) -> "Lake":
        """The lake of these settings."""
        return cls(settings.lake_root)

    def table_uri(self, key_path: Sequence[str]) -> str:
        """Where the table of an asset is.

        Args:
            key_path: The parts of its asset key.

        Raises:
            ValueError: A part cannot be a folder's name, or is the log's.
        """
        for part in key_path:
            if not part or part in (".", "..") or "/" in part:
                raise ValueError(f"{'/'.join(key_path)!r}: {part!r} cannot be the name of a folder of the lake")
        if not key_path or key_path[0] in OWN_FOLDERS:
            raise ValueError(f"{'/'.join(key_path)!r}: {key_path[:1]} is the loader's own folder; choose another name")
        return "/".join([self.root, *key_path])

    def log_uri(self, key_path: Sequence[str]) -> str:
        """Where the change log of an asset's table is; raises as :meth:`table_uri` does."""
        return self._beside(LOG_FOLDER, key_path)

    def cuts_uri(self, key_path: Sequence[str]) -> str:
        """Where it is written down where the windows of an asset's table end; raises as :meth:`table_uri` does."""
        return self._beside(CUTS_FOLDER, key_path)

    def references_uri(self, key_path: Sequence[str]) -> str:
        """Where it is written down what is known of an asset's references; raises as :meth:`table_uri` does."""
        return self._beside(REFERENCES_FOLDER, key_path)

    def _beside(self, folder: str, key_path: Sequence[str]) -> str:
        return "/".join([self.root, folder, self.table_uri(key_path)[len(self.root) + 1 :]])

    def spark_uri(self, uri: str) -> str:
        """``uri`` as Spark's file systems name it: S3 is ``s3a://`` there."""
        return f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri

    def sql_name(self, uri: str) -> str:
        """``uri`` as a table name in SQL."""
        return "delta.`{}`".format(self.spark_uri(uri).replace("`", "``"))

    def delta(self, uri: str, version: int | None = None) -> DeltaTable | None:
        """The table at ``uri``, at its newest or the given version; None if there is none (yet).

        Raises:
            SparkUnavailable: The object store does not answer (transient, as it is when Spark reads the table).
            IncrementalLoadError: The object store refuses: no such bucket, credentials, permission.
            deltalake.exceptions.DeltaError: The table is there and cannot be read, or has no such version.
        """
        with _translated(uri):
            try:
                return DeltaTable(uri, version, _options(uri))
            except TableNotFoundError:
                return None

    def followed(self) -> "Lake":
        """The same lake for one load, which looks at its tables a dozen times: see :class:`FollowedLake`."""
        return FollowedLake(self.root)

    def version(self, uri: str) -> int | None:
        """The newest version of the table at ``uri``; None if there is none."""
        table = self.delta(uri)
        return None if table is None else table.version()

    def transaction_version(self, uri: str, app_id: str, version: int | None = None) -> int | None:
        """The last transaction version that ``app_id`` committed to the table, as of ``version``; None if none."""
        table = self.delta(uri, version)
        return None if table is None else table.transaction_version(app_id)

    @contextmanager
    def files(self, uri: str) -> Iterator[pafs.FileSystem]:
        """The files below ``uri``, read and written as deltalake does it.

        Raises:
            SparkUnavailable, IncrementalLoadError: As :meth:`delta` does.
        """
        with _translated(uri):
            yield pafs.PyFileSystem(DeltaStorageHandler(uri, _options(uri)))

    def forget_checksum(self, uri: str) -> None:
        """Remove what Hadoop may have noted beside a local table's pointer to its newest checkpoint.

        Our Spark keeps no such notes (``resources/spark/conf.py``), others do. When the pointer moves the old note is
        wrong, and whoever opens the table next tries for seven seconds to read it before doing without.
        """
        if not _is_on_s3(uri):
            with suppress(OSError):  # none, or not ours to remove
                (Path(uri) / "_delta_log" / "._last_checkpoint.crc").unlink()

    def commit(
        self,
        table: DeltaTable,
        added: Sequence[AddAction],
        app_id: str,
        number: int,
        *,
        replaced: Mapping[str, Sequence[str]] | None = None,
        note: str = "",
    ) -> bool:
        """Add data files that are written already, without Spark, as commit ``number`` of ``app_id``.

        Args:
            table: As it is now.
            added: The files; none: the commit carries the fence alone.
            app_id: Identifier of the fence.
            number: Its number.
            replaced: Values of partition columns; all files that have them are removed. None: no file is.
            note: What the commit says of itself to people.

        Returns:
            Whether it was made; False where as great a number was committed before, or another writer has committed
            under this identifier, changed what is removed, or changed the table's columns since ``table`` was read.
        """
        uri = table.table_uri
        if (table.transaction_version(app_id) or 0) >= number:
            return False
        fence = CommitProperties({"userMetadata": note}, app_transactions=[Transaction(app_id, number)])
        where = [(column, "in", [*values]) for column, values in (replaced or {}).items()]
        mode: Literal["append", "overwrite"] = "append" if replaced is None else "overwrite"
        by = table.metadata().partition_columns
        with _translated(uri):
            try:
                table.create_write_transaction(
                    [*added], mode, table.schema(), by, partition_filters=where or None, commit_properties=fence
                )
            except CommitFailedError:
                return False
        return True

    def append(self, uri: str, rows: pa.Table, app_id: str, number: int, *, anew: bool = False) -> bool:
        """Append a few rows without Spark, as commit ``number`` of ``app_id``; creates the table if there is none.

        Args:
            uri: Of the table.
            rows: A few.
            app_id: Identifier of the fence.
            number: Its number.
            anew: Whether they take the place of all that is there, in one file.

        Returns:
            Whether they were written; False where another writer committed this number, or any after the last read.

        Raises:
            SparkUnavailable, IncrementalLoadError: As :meth:`delta` does.
        """
        with _translated(uri):
            try:
                table = self.delta(uri)
                if table is None:
                    schema = Schema.from_arrow(rows.schema)
                    table = DeltaTable.create(uri, schema, mode="ignore", storage_options=_options(uri))
                if (table.transaction_version(app_id) or 0) != number - 1:
                    return False
                fence = CommitProperties(app_transactions=[Transaction(app_id, number)])
                write_deltalake(table, rows, mode="overwrite" if anew else "append", commit_properties=fence)
            except CommitFailedError:
                return False
        return True


@dataclass(frozen=True)
class FollowedLake(Lake):
    """A lake whose tables stay open: a further look reads what was committed since, and not the whole Delta log anew.

    With 10,000 files that takes 1 ms where nothing was, instead of 12. A table that was given out is at its newest
    version after the next look at it. Not for what outlives a load: a table that is removed and made anew meanwhile is
    taken for the one that was there.
    """

    _opened: dict[str, DeltaTable] = field(default_factory=dict, init=False, repr=False, compare=False)

    def delta(self, uri: str, version: int | None = None) -> DeltaTable | None:
        """As of any lake."""
        if version is not None:
            return super().delta(uri, version)
        if (opened := self._opened.get(uri)) is not None:
            with _translated(uri):
                opened.update_incremental()
        elif (opened := super().delta(uri)) is not None:
            self._opened[uri] = opened
        return opened


def data_files(delta: DeltaTable) -> pa.Table:
    """The data files of a table, as its Delta log tells: sizes, rows, partitions, maxima.

    Columns: ``path`` (percent-encoded), ``size_bytes``, ``num_records``, ``partition.<column>``, ``max.<column>``.
    """
    return pa.table(delta.get_add_actions(flatten=True))


def bytes_of(files: pa.Table) -> int:
    """Size of :func:`data_files`."""
    return sum(files["size_bytes"].to_pylist())


def rows_of(files: pa.Table) -> int:
    """Rows of :func:`data_files`; 0 where one of them does not tell."""
    told = files["num_records"].to_pylist() if "num_records" in files.schema.names else []
    return 0 if None in told else sum(told)


def bytes_in(files: pa.Table, column: str, values: Sequence[str]) -> int:
    """Size of :func:`files_in` certain partitions."""
    return bytes_of(files_in(files, column, values))


def files_in(files: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    """Those :func:`data_files` that lie in certain partitions, whose values are given as strings."""
    inside = pc.is_in(files[f"partition.{column}"].cast(pa.string()), value_set=pa.array(values, pa.string()))
    return files.filter(inside)


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """What an object store says of a table, in the words of this package."""
    try:
        yield
    except OSError as error:
        meaning = translate(error, f"Delta table {uri}")
        if meaning is error:
            raise
        raise meaning from error


def _is_on_s3(uri: str) -> bool:
    return uri.startswith(("s3://", "s3a://"))


def _options(uri: str) -> dict[str, str]:
    """What the object store has to be told, as deltalake takes it.

    One that is down is known in seconds: the default is to try for three minutes.
    """
    if not _is_on_s3(uri):
        return {}
    endpoint = S3Endpoint.from_env()
    store = S3Config(endpoint=endpoint.url, region=endpoint.region).model_dump(exclude_none=True, exclude={"provider"})
    client = ClientConfig(allow_http=not endpoint.tls).model_dump(exclude_none=True)
    return {name: str(value) for name, value in (store | client | {"max_retries": 2}).items()}

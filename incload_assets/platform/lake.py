"""The lake: paths of the Delta tables, their names in Spark, and reads and small writes without Spark."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import ClassVar, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from incload_assets.platform.errors import IncrementalLoadError, LakeMistaken
from incload_assets.platform.failures import translate
from incload_assets.platform.object_stores import (
    DRIVER_FOLDER,
    in_object_store,
    kind_of,
    object_store,
    with_own_scheme,
)
from incload_assets.platform.settings import Settings
from incload_assets.platform.unreadable import LOG_FOLDER, cut_at_a_line, unreadable, with_features, without_commits

CUTS_FOLDER = "_cuts"
"""Folder under the lake's root with the window bounds of tables whose sources have no reliable times."""
REFERENCES_FOLDER = "_references"
"""Folder under the lake's root with the references from derived tables to others."""
LOADS_FOLDER = "_loads"
"""Folder under the lake's root with the history of all loads."""
AUDIT_FOLDER = "_audit"
"""Folder under the lake's root with the audit."""
DECISIONS_FOLDER = "_decisions"
"""Folder under the lake's root with the decisions of people about rejected rows."""
ERASED_FOLDER = "_erased"
"""Folder under the lake's root with the deny list of erased subjects."""
PERSON_KEYS_FOLDER = "_person_keys"
"""Folder under the lake's root with the keys of persons, for encrypted values."""
FORMER_FOLDER = "_former"
"""Folder under the lake's root with the former content of windows, for undo."""
SHADOW_FOLDER = "_shadow"
"""Folder under the lake's root with the shadows of tables, each with its log, as a lake of its own."""
IDENTITY_FOLDER = "_lake"
"""Folder under the lake's root with the lake's identity."""
OWN_FOLDERS = (
    LOG_FOLDER,
    CUTS_FOLDER,
    REFERENCES_FOLDER,
    LOADS_FOLDER,
    AUDIT_FOLDER,
    DECISIONS_FOLDER,
    ERASED_FOLDER,
    PERSON_KEYS_FOLDER,
    FORMER_FOLDER,
    IDENTITY_FOLDER,
    DRIVER_FOLDER,
    SHADOW_FOLDER,
)
"""All folders of the lake that are reserved for the loader."""
BACK = "INCLOAD_LAKE back; or, if this lake is to go on, run incload doctor --adopt-lake"
"""The remedy for a lake that is not the expected one."""
_OWN = "an environment writes to a lake of its own; nothing was written"
FORMAT = 1
"""The number of the stored formats: tables, logs with their window records and fences, decisions, audit. It grows when
a version writes what the one before cannot read."""
_FORMAT_NAME = "format "
_KNOWN_AS_OWN: set[tuple[str, str]] = set()
"""Root and environment of lakes that this process has found to be its environment's: a load asks a dozen times."""
_COPIES_AT_ONCE = 8


@dataclass(frozen=True)
class Lake:
    """The Delta tables under one root: a folder, or a path in an object store, without a trailing slash.

    Reading metadata of a table (existence, version, transaction versions, schema) needs no Spark: deltalake reads it in
    milliseconds. The resource of dagster-deltalake is not used, because creating it takes longer than opening a table,
    nor its IO manager, because it deletes other partitions than the one it writes.
    """

    root: str
    environment: str | None = None
    """The name of the environment that writes to the lake, empty for the one without a name; None: any may write."""
    is_written: ClassVar[bool] = True
    """False for a lake that is only read."""

    @classmethod
    def of(cls, settings: Settings) -> "Lake":
        """The lake of the settings."""
        return cls(settings.lake_root, settings.environment)

    def table_uri(self, key_path: Sequence[str]) -> str:
        """The URI of an asset's table; raises ValueError if a part of the key is reserved or no valid folder name."""
        for part in key_path:
            if not part or part in (".", "..") or "/" in part:
                raise ValueError(f"{'/'.join(key_path)!r}: {part!r} cannot be the name of a folder of the lake")
        if not key_path or key_path[0] in OWN_FOLDERS:
            raise ValueError(f"{'/'.join(key_path)!r}: {key_path[:1]} is the loader's own folder; choose another name")
        return "/".join([self.root, *key_path])

    def log_uri(self, key_path: Sequence[str]) -> str:
        """The URI of the change log of an asset's table."""
        return self._beside(LOG_FOLDER, key_path)

    def cuts_uri(self, key_path: Sequence[str]) -> str:
        """The URI of the stored window bounds of an asset's table."""
        return self._beside(CUTS_FOLDER, key_path)

    def references_uri(self, key_path: Sequence[str]) -> str:
        """The URI of the stored references of an asset's table."""
        return self._beside(REFERENCES_FOLDER, key_path)

    def former_uri(self, key_path: Sequence[str]) -> str:
        """The URI of the former landings of an asset's table."""
        return self._beside(FORMER_FOLDER, key_path)

    def _beside(self, folder: str, key_path: Sequence[str]) -> str:
        return "/".join([self.root, folder, self.table_uri(key_path)[len(self.root) + 1 :]])

    def spark_uri(self, uri: str) -> str:
        """``uri`` for Spark's file systems, which use ``s3a://`` for S3."""
        return object_store(uri).spark_path(uri) if in_object_store(uri) else uri

    def sql_name(self, uri: str) -> str:
        """The table name in SQL for ``uri``."""
        return "delta.`{}`".format(self.spark_uri(uri).replace("`", "``"))

    def delta(self, uri: str, version: int | None = None) -> DeltaTable | None:
        """The table at ``uri``, at its newest or the given version; None if there is none (yet).

        Raises:
            SparkUnavailable: The object store does not answer (transient, like the same error in Spark).
            IncrementalLoadError: The object store refuses: no such bucket, credentials, permission.
            LakeUnreadable: The table exists but cannot be read, or has no such version.
        """
        with _translated(uri):
            try:
                return DeltaTable(uri, version, _options(uri))
            except TableNotFoundError as error:
                if "PermissionDenied" in str(error):
                    raise
                return None

    def expect_readable(self, uri: str) -> DeltaTable | None:
        """Like :meth:`delta`; also raises for a folder with data and no commits, or a table with an unknown feature."""
        table = self.delta(uri)
        if table is None and (names := self.strangers(uri)) and (table := self.delta(uri)) is None:
            raise without_commits(uri, names)
        if table is not None and (error := with_features(uri, table.protocol().reader_features or ())) is not None:
            raise error
        if table is not None:
            stored = data_files(table)
            with self.files(uri) as files:
                cut = cut_at_a_line(files, uri, table.version(), stored.num_rows, bytes_of(stored))
            if cut is not None:
                raise cut
        return table

    def commits(self, uri: str) -> str | None:
        """A text that changes with the Delta log of the table at ``uri``: a hash of its files; None if it has none."""
        if kind_of(uri) is not None:
            try:
                with self.files(uri) as files:
                    infos = files.get_file_info(pafs.FileSelector("_delta_log", allow_not_found=True))
            except TableNotFoundError:
                return None
            found = sorted((info.base_name, info.size, info.mtime_ns) for info in infos)
        else:
            try:
                with os.scandir(f"{uri}/_delta_log") as entries:
                    stats = [(entry.name, entry.stat()) for entry in entries]
            except OSError:  # no such folder, or a file of it removed meanwhile
                return None
            found = sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        return hashlib.blake2b(repr(found).encode(), digest_size=16).hexdigest() if found else None

    def strangers(self, uri: str) -> list[str]:
        """The names of what is in the folder ``uri`` beside Delta's commits, sorted."""
        try:
            with self.files(uri) as files:
                found = files.get_file_info(pafs.FileSelector("", allow_not_found=True))
        except TableNotFoundError:  # nor is there a folder
            return []
        return sorted(info.base_name for info in found if info.base_name != "_delta_log")

    def followed(self) -> "Lake":
        """The same lake for one load, which opens its tables a dozen times: see :class:`FollowedLake`."""
        return FollowedLake(self.root, self.environment)

    def identity(self, *, create: bool = False) -> str | None:
        """The lake's identity, a UUID that a copy has, too; None if it has none yet and none is to be created.

        It is the identifier in the first commit of an empty Delta table, which only one of several processes can make.
        The table's description is the name of the environment that the lake belongs to, its name that of the format.
        """
        uri = f"{self.root}/{IDENTITY_FOLDER}"
        table = self.delta(uri, 0)
        if table is None and create:
            empty = Schema.from_arrow(pa.schema([("nothing", pa.string())]))
            with _translated(uri), suppress(CommitFailedError):  # another writer has created it at the same time
                DeltaTable.create(
                    uri,
                    empty,
                    mode="ignore",
                    name=f"{_FORMAT_NAME}{FORMAT}",
                    description=self.environment or None,
                    storage_options=_options(uri),
                )
            table = self.delta(uri, 0)
        return None if table is None else str(table.metadata().id)

    def owner(self) -> str | None:
        """The name of the environment that the lake belongs to, empty for the one without a name; None: nobody's yet.

        Lakes that were made before there were environments, or before lakes had an identity, belong to the latter.
        """
        if (table := self.delta(f"{self.root}/{IDENTITY_FOLDER}")) is not None:
            return table.metadata().description or ""
        # a driver registers before anything is written
        made = {*OWN_FOLDERS} - {DRIVER_FOLDER}
        return "" if any(name in made for name in self.strangers(self.root)) else None

    def format(self) -> int:
        """The number of the stored formats in the lake; 1 for lakes that were made before there was a number."""
        table = self.delta(f"{self.root}/{IDENTITY_FOLDER}")
        name = (table and table.metadata().name) or ""
        return int(name.removeprefix(_FORMAT_NAME)) if name.startswith(_FORMAT_NAME) else 1

    def take_over(self) -> None:
        """Makes the lake this environment's, whoever's it was; it gets an identity if it has none."""
        self.identity(create=True)
        if self.environment is not None and self.owner() != self.environment:
            table = self.delta(f"{self.root}/{IDENTITY_FOLDER}")
            assert table is not None
            with _translated(table.table_uri):
                table.alter.set_table_description(self.environment)
            _KNOWN_AS_OWN.difference_update({known for known in _KNOWN_AS_OWN if known[0] == self.root})

    def not_own(self) -> LakeMistaken | None:
        """The error for a lake that cannot be written by this version in this environment; None if it can be.

        Such a lake is another environment's, would be made in another one's, or has a newer format.
        """
        if self.environment is None or (self.root, self.environment) in _KNOWN_AS_OWN:
            return None
        if (stored := self.format()) > FORMAT:
            return LakeMistaken(
                f"the lake {self.root} has format {stored}",
                rule=f"this version of incload reads formats up to {FORMAT}; nothing was written",
                remedy="install a newer version, such as the one that wrote the lake",
            )
        if (owner := self.owner()) == self.environment:
            _KNOWN_AS_OWN.add((self.root, self.environment))
            return None
        mine = _named(self.environment)
        if owner is not None:
            return LakeMistaken(
                f"the lake {self.root} belongs to {_named(owner)}, and this is {mine}",
                rule=_OWN,
                remedy=f"set {BACK}; to read its tables only, set INCLOAD_UPSTREAM_LAKE",
            )
        around = self.root.rpartition("/")[0]
        if self.environment and (owner := Lake(around).owner()) is not None:
            return LakeMistaken(
                f"the lake {self.root} of {mine} would be made in the lake of {_named(owner)}",
                rule=_OWN,
                remedy="set INCLOAD_LAKE to a folder that is no lake: each environment gets a folder in it",
            )
        return None

    def expect_own(self, name: str) -> None:
        """Raises LakeMistaken, which begins with a table's name, for a lake of another environment.

        A lake that is nobody's yet is marked as this environment's, if that has a name.
        """
        if (error := self.not_own()) is not None:
            raise LakeMistaken(f"{name}: {error.problem}", rule=error.rule, remedy=error.remedy)
        if self.environment and (self.root, self.environment) not in _KNOWN_AS_OWN:
            self.identity(create=True)

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
        """The file system below ``uri``, with deltalake's access to the object store."""
        with _translated(uri):
            yield pafs.PyFileSystem(DeltaStorageHandler(uri, _options(uri)))

    def remove(self, folder: str) -> bool:
        """Removes a folder below the root with all that is in it; returns whether it held a file."""
        with self.files(self.root) as files:
            found = files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True))
            for one in found:
                if one.type == pafs.FileType.File:
                    files.delete_file(one.path)
        if not in_object_store(self.root):
            rmtree(f"{self.root}/{folder}", ignore_errors=True)  # the empty folders
        return any(one.type == pafs.FileType.File for one in found)

    def copy(self, places: Mapping[str, str]) -> None:
        """Copies files, new by old paths below the root, as links on a local disk or by the object store."""
        with _translated(self.root), ThreadPoolExecutor(_COPIES_AT_ONCE, "incload-copy") as pool:
            handler = DeltaStorageHandler(self.root, _options(self.root))
            copy = handler._handler.copy_file  # its public form passes an argument under a wrong name
            list(pool.map(copy, places.keys(), places.values()))

    def forget_checksum(self, uri: str) -> None:
        """Removes the checksum file that Hadoop may have written beside a local table's ``_last_checkpoint``.

        Our Spark writes no such files (``platform/spark/conf.py``), but others do. When ``_last_checkpoint`` changes,
        the old checksum is wrong, and the next reader of the table retries for seven seconds before ignoring it.
        """
        if kind_of(uri) is None:
            with suppress(OSError):  # there is none, or it belongs to another account
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
        schema: Schema | None = None,
        alone: bool = False,
        also: Mapping[str, int] | None = None,
    ) -> bool:
        """Commits data files that are written already, without Spark, as commit ``number`` of the fence ``app_id``.

        Args:
            table: The table at its present version.
            added: The files; if empty, the commit contains only the fence.
            replaced: Values by partition column, whose files are removed; without a column all files. None: none.
            schema: The columns from then on, if all files are removed; by default the present ones.
            alone: Whether the commit fails if there was any other commit since ``table`` was read.
            also: Numbers of other identifiers that the commit sets.

        Returns:
            False if this or a greater number was committed before, or if since ``table`` was read another writer has
            committed under these identifiers, changed the removed files, or changed the table's columns.
        """
        uri = table.table_uri
        if (table.transaction_version(app_id) or 0) >= number:
            return False
        fence = CommitProperties(
            {"userMetadata": note},
            max_commit_retries=0 if alone else None,
            app_transactions=[Transaction(*each) for each in {app_id: number, **(also or {})}.items()],
        )
        columns = table.schema() if schema is None else schema
        where = [(column, "in", [*values]) for column, values in (replaced or {}).items()]
        mode: Literal["append", "overwrite"] = "append" if replaced is None else "overwrite"
        by = table.metadata().partition_columns
        with _translated(uri):
            try:
                table.create_write_transaction(
                    [*added], mode, columns, by, partition_filters=where or None, commit_properties=fence
                )
            except CommitFailedError:
                return False
        return True

    def move_fences(self, table: DeltaTable, numbers: Mapping[str, int]) -> bool:
        """Moves fences to numbers above all earlier ones, in one commit without data; returns whether it succeeded."""
        fences = CommitProperties(app_transactions=[Transaction(*each) for each in numbers.items()])
        by = table.metadata().partition_columns
        with _translated(table.table_uri):
            try:
                table.create_write_transaction([], "append", table.schema(), by, commit_properties=fences)
            except CommitFailedError:
                return False
        return True

    def append(self, uri: str, rows: pa.Table, app_id: str, number: int, *, replacing: bool = False) -> bool:
        """Appends a few rows without Spark as commit ``number`` of ``app_id``, or replaces all rows (``replacing``).

        Returns False if another writer committed this number, or any since the last read. Creates the table if
        necessary. Raises LakeMistaken if the lake is another environment's.
        """
        self.expect_own(uri.removeprefix(f"{self.root}/"))
        with _translated(uri):
            try:
                table = self.delta(uri)
                if table is None:
                    schema = Schema.from_arrow(rows.schema)
                    table = DeltaTable.create(uri, schema, mode="ignore", storage_options=_options(uri))
                if (table.transaction_version(app_id) or 0) != number - 1:
                    return False
                fence = CommitProperties(app_transactions=[Transaction(app_id, number)])
                write_deltalake(table, rows, mode="overwrite" if replacing else "append", commit_properties=fence)
            except CommitFailedError:
                return False
        return True


@dataclass(frozen=True)
class FollowedLake(Lake):
    """A lake whose tables stay open: opening one again reads only the commits since, not the whole Delta log.

    With 10,000 files and no new commit that takes 1 ms instead of 12. Opening a table again also moves the objects
    returned before to the newest version. Only for the length of a load: a table that is deleted and created again
    meanwhile is mistaken for the old one.
    """

    _opened: dict[str, DeltaTable] = field(default_factory=dict, init=False, repr=False, compare=False)

    def delta(self, uri: str, version: int | None = None) -> DeltaTable | None:
        """The table at ``uri``, see :meth:`Lake.delta`."""
        if version is not None:
            return super().delta(uri, version)
        if (opened := self._opened.get(uri)) is not None:
            with _translated(uri):
                opened.update_incremental()
        elif (opened := super().delta(uri)) is not None:
            self._opened[uri] = opened
        return opened


def data_files(delta: DeltaTable) -> pa.Table:
    """The data files of a table from its Delta log, one row each.

    Columns: ``path`` (percent-encoded), ``size_bytes``, ``num_records``, ``partition.<column>``, ``max.<column>``.
    """
    return pa.table(delta.get_add_actions(flatten=True))


def bytes_of(files: pa.Table) -> int:
    """Total size of :func:`data_files`, in bytes."""
    return sum(files["size_bytes"].to_pylist())


def sizes_of(files: pa.Table) -> dict[str, int]:
    """The sizes of :func:`data_files` in bytes, by their names."""
    return dict(zip(map(unquote, files["path"].to_pylist()), files["size_bytes"].to_pylist(), strict=True))


def rows_of(files: pa.Table) -> int:
    """Number of rows of :func:`data_files`; 0 if a file lacks statistics."""
    counts = files["num_records"].to_pylist() if "num_records" in files.schema.names else []
    return 0 if None in counts else sum(counts)


def bytes_in(files: pa.Table, column: str, values: Sequence[str]) -> int:
    """Total size of :func:`files_in` the given partitions, in bytes."""
    return bytes_of(files_in(files, column, values))


def files_in(files: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    """The :func:`data_files` in the given partitions, whose values are given as strings."""
    inside = pc.is_in(files[f"partition.{column}"].cast(pa.string()), value_set=pa.array(values, pa.string()))
    return files.filter(inside)


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """Translates errors of the object store, and of damaged tables, within the block into this package's errors."""
    try:
        yield
    except (OSError, DeltaError) as error:  # of a refused write deltalake says that a file cannot be parsed
        known = translate(error, f"Delta table {uri}")
        meaning = _unreadable(error, uri) if known is error else known
        if meaning is None:
            raise
        raise meaning from None  # its text has a back trace of foreign code


def _unreadable(error: OSError | DeltaError, uri: str) -> IncrementalLoadError | None:
    """The error for a damaged table; None for a lost race, or a file that was asked for and does not exist."""
    is_of_table = isinstance(error, DeltaError) or str(error).startswith("Kernel error")
    is_absent = isinstance(error, TableNotFoundError) and "PermissionDenied" not in str(error)
    if isinstance(error, CommitFailedError) or is_absent or not is_of_table:
        return None
    files = None
    with suppress(OSError, DeltaError):  # nor can its folder be opened
        files = pafs.PyFileSystem(DeltaStorageHandler(uri, _options(uri)))
    return unreadable(error, uri, files)


def _named(environment: str) -> str:
    return f"the environment {environment}" if environment else "the environment without a name"


def _options(uri: str) -> dict[str, str]:
    """The options for deltalake."""
    if kind_of(uri) is None:
        return {}
    store = object_store(with_own_scheme(uri))
    store.check(f"Delta table {uri}")
    return store.delta_options()

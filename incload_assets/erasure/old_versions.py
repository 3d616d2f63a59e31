"""Removal of all old versions of a Delta table at once: data files, change data, and commits before a checkpoint.

Delta's ``VACUUM`` without a retention lists the files after it has read the version to keep, so it would remove files
of a commit that happens in between. Here the files are listed first, then a commit rejects all that began before, and
only files of the list that the version after it does not use are removed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow.fs as pafs

from incload_assets.delta.counts import Counts
from incload_assets.platform.lake import Lake, data_files

COMMITS_FOLDER = "_delta_log"
_VERSION = re.compile(r"\.?(\d{20})\.")


@dataclass(frozen=True)
class Removed(Counts):
    """The counts of a removal.

    Args:
        files: Number of data files.
        size: Their size in bytes.
        commits: Number of files of Delta's log.
    """

    files: int = 0
    size: int = 0
    commits: int = 0


def remove_old_versions(lake: Lake, uri: str, bar: Callable[[], object]) -> Removed:
    """Removes what the newest version of a Delta table does not use.

    Args:
        lake: The lake with the table.
        uri: The table's URI.
        bar: Makes a commit that rejects all commits which have begun before.
    """
    with lake.files(uri) as files:
        listed = files_of_data(files)
        bar()
        now = lake.delta(uri)
        assert now is not None
        used = {unquote(path) for path in data_files(now)["path"].to_pylist()}
        unused = [info for info in listed if info.path not in used]
        for info in unused:
            files.delete_file(info.path)
        now.create_checkpoint()
        old = [info for info in _commits(files) if int(_VERSION.match(info.base_name)[1]) < now.version()]  # type: ignore[index]
        for info in old:
            files.delete_file(info.path)
    lake.forget_checksum(uri)
    return Removed(len(unused), sum(info.size for info in unused), len(old))


def files_of_data(files: pafs.FileSystem) -> list[pafs.FileInfo]:
    """The Parquet files of the table, without those of Delta tables in folders below it."""
    infos = files.get_file_info(pafs.FileSelector("", recursive=True))
    inner = {
        info.path.partition(f"/{COMMITS_FOLDER}/")[0] + "/" for info in infos if f"/{COMMITS_FOLDER}/" in info.path
    }
    return [
        info
        for info in infos
        if info.type == pafs.FileType.File
        and info.path.endswith(".parquet")
        and not info.path.startswith((f"{COMMITS_FOLDER}/", *inner))
    ]


def _commits(files: pafs.FileSystem) -> list[pafs.FileInfo]:
    infos = files.get_file_info(pafs.FileSelector(COMMITS_FOLDER, recursive=True))
    return [info for info in infos if info.type == pafs.FileType.File and _VERSION.match(info.base_name)]

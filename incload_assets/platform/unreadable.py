"""Translation of deltalake's errors about tables that cannot be read: the file, the rule and the remedy."""

import json
import re
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from incload_assets.platform.errors import IncrementalLoadError, LakeUnreadable, StoredFileLost
from incload_assets.platform.failures import Fault, first_match, masked

LOG_FOLDER = "_changes"
"""Folder under the lake's root with the change log of each table."""
_COMMITS = "_delta_log"
_LOOKED_AT = 1 << 20
"""Bytes of the largest commit that is read whenever its table is opened to see whether it is whole."""
READER_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "columnMapping"})
"""The reader features of Delta tables that readers of the loader know; a table that maps columns is not adopted."""
_FORMAT = "incload reads the features of Delta tables that its version of deltalake knows, and its loads add no others"
_OTHER_FORMAT = (
    "take the feature away where it was added, with Spark: ALTER TABLE … DROP FEATURE …; or update incload; or restore "
    "{uri} from a copy of the lake"
)
_FAULTS = (
    Fault(
        r"Feature '[^']*' is not supported|[Uu]nsupported minimum (?:reader|writer) version \d+"
        r"|these reader features: \{[^}]*\}",
        LakeUnreadable,
        "{what} has a format that this version does not read ({found})",
        _FORMAT,
        _OTHER_FORMAT,
    ),
    Fault(
        r"(?i)Permission ?denied",
        LakeUnreadable,
        "{what} may not be read by this account (permission denied{named})",
        "loads, checks and commands read and list all folders of the lake, see incload docs privileges",
        "give the account read and write rights to {uri} and everything below it",
    ),
    Fault(
        r"Not a directory|Invalid table location",
        LakeUnreadable,
        "{what} is no folder",
        "a Delta table has its folder for itself",
        "move the file away, and restore the folder from a copy of the lake",
    ),
    Fault(
        r"(?:Object at location|reading file) (?P<file>/?\S+\.parquet)\b.* not found",
        StoredFileLost,
        "{what}: its data file {file} is gone",
        "files of the lake are removed by Delta's VACUUM alone",
        "restore it from a copy of the lake{afresh}",
    ),
    Fault(
        r"Could not open Parquet input source '(?P<file>[^']*)'",
        LakeUnreadable,
        "{what}: its data file {file} is damaged",
        "data files never change once they are written",
        "restore it from a copy of the lake{afresh}",
    ),
)


def afresh(uri: str) -> str:
    """The remedy for a table or a log without a copy of it; empty if there is none."""
    if f"/{LOG_FOLDER}/" in uri:
        return (
            f", or remove all of {uri} where the source still holds everything: its partitions are then asked for, and "
            "ingested again"
        )
    if re.search(r"/_[^/]+(/|$)", uri):
        return ""
    return f", or remove all of {uri}: its partitions are then asked for, and merged from the log again"


def described(uri: str) -> str:
    """A table with its kind and place, for messages."""
    return f"the {'log of changes' if f'/{LOG_FOLDER}/' in uri else 'Delta table'} {uri}"


def unreadable(
    error: BaseException, uri: str, files: pafs.FileSystem | None = None, *, sure: bool = True
) -> IncrementalLoadError | None:
    """The error of this project for an error of deltalake or pyarrow about a table.

    Args:
        error: The error.
        uri: The table's URI.
        files: The files below the URI, to find the damaged one; None: it is not looked for.
        sure: Whether the error is about the table, whatever it says; None is returned otherwise if it is of no known
            kind.

    Example:
        >>> str(unreadable(OSError("Kernel error: Unsupported minimum reader version 9"), "/lake/orders"))[:45]
        'the Delta table /lake/orders has a format tha'
    """
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    place = re.search(r"(?:open file|access) (/\S+)", text)
    named = f": {place[1]}" if place else ""
    about = {"what": described(uri), "uri": uri, "named": named, "afresh": afresh(uri)}
    if (known := first_match(_FAULTS, text, **about)) is not None:
        return known
    if not sure:
        return None
    if files is not None and (found := _damage(files, uri)) is not None:
        return found
    first = masked(next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__))
    return LakeUnreadable(
        f"{described(uri)} cannot be read ({first[:200]})",
        rule=f"a Delta table is its data files and the commits in {_COMMITS}",
        remedy=f"restore {uri} from a copy of the lake{afresh(uri)}",
    )


def with_features(uri: str, names: Collection[str]) -> IncrementalLoadError | None:
    """The error for a table with reader features; None if all of them are known.

    Args:
        uri: The table's URI.
        names: The features' names.
    """
    unknown = sorted({*names} - READER_FEATURES)
    return unreadable(ValueError(f"Feature {unknown[0]!r} is not supported"), uri) if unknown else None


def without_commits(uri: str, names: Sequence[str]) -> LakeUnreadable:
    """The error for a folder with data and without a single commit.

    Args:
        uri: The folder's URI.
        names: The names of files and folders in it.
    """
    return LakeUnreadable(
        f"{described(uri)} has no commits in {_COMMITS}, but holds {', '.join(map(repr, names[:3]))}",
        rule=f"a Delta table is its data files and the commits in {_COMMITS}",
        remedy=f"restore {uri}/{_COMMITS} from a copy of the lake{afresh(uri)}",
    )


def cut_at_a_line(files: pafs.FileSystem, uri: str, version: int, count: int, size: int) -> LakeUnreadable | None:
    """The error for a newest commit that lacks lines at its end, which readers do not notice; None if it lacks none.

    Args:
        files: The files below the URI.
        uri: The table's URI.
        version: The version that was read.
        count: Number of its data files, which Spark writes into a file beside its commit.
        size: Their total bytes, which it writes there, too.
    """
    name = f"{version:020d}.json"
    commit, sums = files.get_file_info([f"{_COMMITS}/{name}", f"{_COMMITS}/{version:020d}.crc"])
    if not commit.is_file or commit.size > _LOOKED_AT:
        return None
    try:
        actions = [json.loads(line) for line in _text(files, commit.path).splitlines()]
        known = json.loads(_text(files, sums.path)) if sums.is_file else {}
    except (ValueError, FileNotFoundError):  # a damaged sum, which Spark ignores, too; or a log that is cleaned up now
        return None
    info: dict[str, str] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    whole = bool(actions)
    if known.get("txnId") and known["txnId"] == info.get("txnId"):
        whole = (known["numFiles"], known["tableSizeBytes"]) == (count, size)
    elif "/_" in uri and info.get("operation") == "WRITE" and "delta-rs" in info["engineInfo"]:
        whole = "txn" in actions[-1]  # the fence, with which all writes to the lake's own tables end
    return None if whole else _torn(uri, name, newest=True)


def _text(files: pafs.FileSystem, path: str) -> str:
    with files.open_input_stream(path) as stream:
        return str(stream.read().decode())


def _damage(files: pafs.FileSystem, uri: str) -> LakeUnreadable | None:
    """The damaged or missing file among a table's commits and checkpoints; None if none is found."""
    try:
        names = sorted(info.base_name for info in files.get_file_info(pafs.FileSelector(_COMMITS)) if info.is_file)
        commits = [name for name in names if re.fullmatch(r"\d{20}\.json", name)]
        torn = next((name for name in reversed(commits) if not _is_whole(files, name)), None)
        if torn is not None:
            return _torn(uri, torn, newest=torn == commits[-1])
        parts = [name for name in names if re.fullmatch(r"\d{20}\.checkpoint.*\.parquet", name)]
        if bad := [name for name in parts if not _is_parquet(files, name)]:
            return _bad_checkpoint(uri, bad[-1], commits, "is cut or damaged")
        if "_last_checkpoint" in names and not parts:
            return _bad_checkpoint(uri, "_last_checkpoint", commits, "names a checkpoint that is gone")
        first = int(parts[-1][:20]) + 1 if parts else 0
        there = {int(name[:20]) for name in commits}
        gone = [number for number in range(first, max(there, default=first)) if number not in there]
    except (OSError, pa.ArrowException):
        return None
    if not gone:
        return None
    return LakeUnreadable(
        f"{described(uri)} cannot be read: {uri}/{_COMMITS}/{gone[0]:020d}.json is missing",
        rule="every commit since the last checkpoint is there; later ones build on it",
        remedy=f"restore it from a copy of the lake{afresh(uri)}",
    )


def _torn(uri: str, name: str, *, newest: bool) -> LakeUnreadable:
    file = f"{uri}/{_COMMITS}/{name}"
    rule = "a commit is one whole JSON object in each line"
    is_of_table = bool(afresh(uri))
    if newest and int(name[:20]) > 0:
        return LakeUnreadable(
            f"{described(uri)} cannot be read: {file}, its newest commit, is cut or damaged",
            rule=f"{rule}; no later commit builds on the newest one",
            remedy="restore the file from a copy of the lake; without one, stop the loads, see that no later commit is "
            "there, and remove it with its .crc file: the table is then as it was before that commit"
            + (", incload doctor names the partitions that it lost, and incload load loads them again" * is_of_table),
        )
    why = "later commits build on it" if not newest else "it is the only one"
    return LakeUnreadable(
        f"{described(uri)} cannot be read: {file} is cut or damaged",
        rule=f"{rule}; this one is not to be removed, because {why}",
        remedy=f"restore the file from a copy of the lake{afresh(uri)}",
    )


def _bad_checkpoint(uri: str, name: str, commits: Sequence[str], what: str) -> LakeUnreadable:
    whole = [int(commit[:20]) for commit in commits] == list(range(len(commits)))
    also = "" if name == "_last_checkpoint" else f" and {_COMMITS}/_last_checkpoint"
    return LakeUnreadable(
        f"{described(uri)} cannot be read: {uri}/{_COMMITS}/{name} {what}",
        rule="a checkpoint has the sum of all commits before it",
        remedy=f"remove it{also}: all commits since the first one are there, and have the same"
        if whole and commits
        else f"restore it from a copy of the lake{afresh(uri)}",
    )


def _is_whole(files: pafs.FileSystem, name: str) -> bool:
    try:
        lines = _text(files, f"{_COMMITS}/{name}").splitlines()
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines if line.strip())
    except ValueError:  # no JSON, no text
        return False


def _is_parquet(files: pafs.FileSystem, name: str) -> bool:
    try:
        pq.read_metadata(files.open_input_file(f"{_COMMITS}/{name}"))
    except pa.ArrowException:
        return False
    return True

"""File names that mark unfinished files, or that hide files from Spark."""

from incload_assets.platform.errors import DeclarationError

UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", "._copying_", "~")
"""Endings, in lower case, of files that are still being written."""


def is_hidden(name: str) -> bool:
    """True if Spark silently ignores a file because of its name, even if its path is given.

    See ``HadoopFSUtils.shouldFilterOutPathName`` and ``PartitioningAwareFileIndex.isDataPath`` of Spark 4.2. Folders
    may have such names, if the paths of files are given.

    Example:
        >>> [is_hidden(name) for name in ("_a.csv", ".a.csv", "_a=1.csv", "a.csv._COPYING_")]
        [True, True, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def check_last(table_name: str, path: str, name: str) -> None:
    """Refuses a path whose files would never be read.

    Args:
        table_name: For messages.
        path: The path as declared.
        name: The part of the path after the last slash.

    Raises:
        DeclarationError: The name is hidden, or marks a file that is still being written.
    """
    if name.lower().endswith(UNFINISHED):
        raise DeclarationError(
            f"{table_name}: source: path {path!r} ends in the name of a file that is still being written",
            rule=f"files that end in {', '.join(UNFINISHED)} are not loaded",
            remedy="rename the files when they are complete, and declare their final name",
        )
    if is_hidden(name):
        raise DeclarationError(
            f"{table_name}: source: path {path!r} ends in a name that begins with {name[0]!r}",
            rule="Spark treats such files as hidden, and does not read them",
            remedy=f"rename them, for example {name.lstrip('._') or 'orders.json'!r}; * does not match hidden files",
        )

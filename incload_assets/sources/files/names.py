"""What the name of a file says: that its writer has not finished, that Spark does not see it."""

from resources.errors import DeclarationError

UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", "._copying_", "~")
"""Endings, in lower case, of files that are still being written."""


def is_hidden(name: str) -> bool:
    """Whether Spark leaves a file out of what it reads because of its name, without a word, whoever asks for it.

    See ``HadoopFSUtils.shouldFilterOutPathName`` and ``PartitioningAwareFileIndex.isDataPath`` of Spark 4.2; of files
    that are asked for by their paths, folders may be named so.

    Example:
        >>> [is_hidden(name) for name in ("_a.csv", ".a.csv", "_a=1.csv", "a.csv._COPYING_")]
        [True, True, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def check_last(table_name: str, path: str, name: str) -> None:
    """Refuse a path to files that would never be read.

    Args:
        table_name: For messages.
        path: The path as declared.
        name: What it ends in, after the last slash.

    Raises:
        DeclarationError: The name is hidden, or that of a file that is still being written.
    """
    if name.lower().endswith(UNFINISHED):
        raise DeclarationError(
            f"{table_name}: source: path {path!r} ends in the name of a file that is still being written",
            rule=f"files that end in {', '.join(UNFINISHED)} are not loaded",
            remedy="have the files renamed when they are whole, and give their final name",
        )
    if is_hidden(name):
        raise DeclarationError(
            f"{table_name}: source: path {path!r} ends in a name that begins with {name[0]!r}",
            rule="Spark takes such files for hidden, and reads nothing of them",
            remedy=f"name them otherwise, for example {name.lstrip('._') or 'orders.json'!r}; * does not match them",
        )

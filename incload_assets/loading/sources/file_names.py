"""What the name of a file says: that its writer has not finished, that Spark does not see it."""

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

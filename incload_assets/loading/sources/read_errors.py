"""Spark's errors while it reads a source, as errors of this package."""

import re

from pyspark.errors import PySparkException

from incload_assets.loading.errors import IncrementalLoadError, SourceChanged, SourceUnavailable, SourceUnreadable
from incload_assets.loading.sources.database_errors import read_failure
from incload_assets.loading.sources.kafka_errors import kafka_error


def read_error(table: str, error: BaseException, source: str = "its database") -> IncrementalLoadError | None:
    """What an exception of an action over extracted rows says about its source; None where it says nothing.

    A file is opened when Spark runs, so a file cut off in the middle of its compression shows only then.

    Args:
        table: For messages.
        error: What the action raised.
        source: What a database's words are about.

    Example:
        >>> read_error("orders", ValueError("x")) is None
        True
    """
    if not isinstance(error, PySparkException):
        return None
    text = str(error)
    if "org.postgresql" in text:
        return read_failure(table, source, error)
    if found := re.search(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE", text):
        return SourceChanged(
            f"{table}: the file {found[1]} has vanished",
            rule="a load reads files as they were when they were listed",
            remedy="the load is tried again",
        )
    if "FAILED_READ_FILE" not in text:
        return kafka_error(table, text)
    found = re.search(r"reading file (\S.*?)\.\s", text)
    name = found[1] if found else "a source file"
    if re.search(r"FILE_NOT_EXIST|FileNotFoundException|does not exist", text):
        return SourceChanged(
            f"{table}: the file {name} has vanished",
            rule="a load reads files as they were when they were listed",
            remedy="the load is tried again",
        )
    if re.search(r"SdkClientException|ConnectException|UnknownHostException|SocketTimeoutException", text):
        return SourceUnavailable(
            f"{table}: the store of {name} does not answer",
            rule="what does not answer is not taken for empty",
            remedy="the load is tried again",
        )
    return SourceUnreadable(
        f"{table}: Spark cannot read the file {name}",
        rule="a file is whole, readable, and of the compression that its name says",
        remedy="write the file again, or correct its permissions or name",
    )

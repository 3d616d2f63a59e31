"""Spark's errors while it reads files, as errors of this project."""

import re

from resources.errors import IncrementalLoadError, SourceChanged, SourceUnavailable, SourceUnreadable


def file_error(table_name: str, text: str) -> IncrementalLoadError | None:
    """The error of this project that Spark's text about a file amounts to; None where the text is about something else.

    A file is opened when Spark runs, so a file that is cut off in the middle of its compression shows only then.

    Args:
        table_name: For messages.
        text: Of Spark's exception.
    """
    if found := re.search(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE", text):
        return SourceChanged(
            f"{table_name}: the file {found[1]} has vanished",
            rule="a load reads files as they were when they were listed",
            remedy="the load is tried again",
        )
    if "FAILED_READ_FILE" not in text:
        return None
    found = re.search(r"reading file (\S.*?)\.\s", text)
    name = found[1] if found else "a source file"
    if re.search(r"FILE_NOT_EXIST|FileNotFoundException|does not exist", text):
        return SourceChanged(
            f"{table_name}: the file {name} has vanished",
            rule="a load reads files as they were when they were listed",
            remedy="the load is tried again",
        )
    if re.search(r"SdkClientException|ConnectException|UnknownHostException|SocketTimeoutException", text):
        return SourceUnavailable(
            f"{table_name}: the store of {name} does not answer",
            rule="what does not answer is not taken for empty",
            remedy="the load is tried again",
        )
    return SourceUnreadable(
        f"{table_name}: Spark cannot read the file {name}",
        rule="a file is whole, readable, and of the compression that its name says",
        remedy="write the file again, or correct its permissions or name",
    )

"""Translation of Spark's errors while it reads files."""

import re
from dataclasses import replace

from incload_assets.platform.errors import IncrementalLoadError, SourceChanged, SourceUnavailable, SourceUnreadable
from incload_assets.platform.failures import Fault, first_match

_VANISHED = Fault(
    r"\[PATH_NOT_FOUND\] Path does not exist: (?P<file>.+?)\. SQLSTATE",
    SourceChanged,
    "{table}: the file {file} has vanished",
    rule="a load reads files as they were when they were listed",
    remedy="the load is tried again",
)
_FAULTS = (
    _VANISHED,
    replace(_VANISHED, pattern="FILE_NOT_EXIST|FileNotFoundException|does not exist", about="FAILED_READ_FILE"),
    Fault(
        "SdkClientException|ConnectException|UnknownHostException|SocketTimeoutException",
        SourceUnavailable,
        "{table}: the store of {file} does not answer",
        rule="what does not answer is not taken for empty",
        remedy="the load is tried again",
        about="FAILED_READ_FILE",
    ),
    Fault(
        "FAILED_READ_FILE",
        SourceUnreadable,
        "{table}: Spark cannot read the file {file}",
        rule="a file is whole, readable, and of the compression that its name says",
        remedy="write the file again, or correct its permissions or name",
    ),
)


def file_error(table_name: str, text: str) -> IncrementalLoadError | None:
    """The error for a text of Spark's exception about a file, such as a truncated one; None for any other text."""
    found = re.search(r"reading file (\S.*?)\.\s", text)
    return first_match(_FAULTS, text, table=table_name, file=found[1] if found else "a source file")

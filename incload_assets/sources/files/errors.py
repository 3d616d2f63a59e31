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

_AVRO = Fault(
    r"AVRO\w*NOT_LOADED|data source: avro|DATA_SOURCE_NOT_FOUND[^\n]*avro|from_avro[^\n]*UNRESOLVED_ROUTINE",
    SourceUnreadable,
    "{table}: this Spark has no reader of Avro",
    rule="Spark reads Avro with a jar of its own, fetched where it is asked for",
    remedy="set INCLOAD_AVRO=true where Spark is started, and start it again (incload stop); Maven, which has to "
    "be there, fetches the jar; give a Spark server of your own spark-avro",
)


def avro_missing(table_name: str, text: str) -> IncrementalLoadError | None:
    """The error for a text of a Spark that has no reader of Avro; None for any other text."""
    return first_match([_AVRO], text, table=table_name)


def file_error(table_name: str, text: str) -> IncrementalLoadError | None:
    """The error for a text of Spark's exception about a file, such as a truncated one; None for any other text."""
    found = re.search(r"reading file (\S.*?)\.\s", text)
    return first_match(_FAULTS, text, table=table_name, file=found[1] if found else "a source file")

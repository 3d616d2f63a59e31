"""Translation of Spark's errors while it reads a source."""

from pyspark.errors import PySparkException

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.sources.database.errors import read_failure
from incload_assets.sources.files.errors import file_error
from incload_assets.sources.kafka.errors import kafka_error


def read_error(table_name: str, error: BaseException, source: str = "its source") -> IncrementalLoadError | None:
    """The error for an exception of an action over extracted rows; None if the exception is not about the source."""
    if not isinstance(error, PySparkException):
        return None
    text = str(error)
    if found := read_failure(table_name, source, error):
        return found
    return file_error(table_name, text) or kafka_error(table_name, text, source)

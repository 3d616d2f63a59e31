"""Every kind of source, as the conformance suite runs it."""

from tests.sources.case import Case
from tests.sources.case_debezium import DebeziumFiles
from tests.sources.case_files import CsvFiles, JsonFiles, ParquetFiles, S3Files
from tests.sources.case_http_api import PagedApi
from tests.sources.case_kafka import KafkaTopic
from tests.sources.case_postgres import PostgresById, PostgresByTime
from tests.sources.case_several import SeveralFiles
from tests.writes.case import EXAMPLES

DAILY: list[type[Case]] = [
    JsonFiles, S3Files, PagedApi, PostgresByTime, PostgresById, KafkaTopic, DebeziumFiles, SeveralFiles,
]  # fmt: skip
FORMATS: list[type[Case]] = [CsvFiles, ParquetFiles]
"""Their reading has tests of its own; as a source they are what JSON files are."""
CASES = [*DAILY, *FORMATS] if EXAMPLES > 1 else DAILY

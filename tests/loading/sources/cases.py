"""Every kind of source, as the conformance suite runs it."""

from tests.loading.sources.case import Case
from tests.loading.sources.case_debezium import DebeziumFiles
from tests.loading.sources.case_files import CsvFiles, JsonFiles, ParquetFiles, S3Files
from tests.loading.sources.case_http_api import PagedApi
from tests.loading.sources.case_kafka import KafkaTopic
from tests.loading.sources.case_postgres import PostgresById, PostgresByTime

CASES: list[type[Case]] = [
    JsonFiles, CsvFiles, ParquetFiles, S3Files, PagedApi, PostgresByTime, PostgresById, KafkaTopic, DebeziumFiles,
]  # fmt: skip

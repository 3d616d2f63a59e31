"""Where changes come from: the contract of a source, and the kinds there are."""

from incload_assets.loading.sources.base import EXTRACTED_COLUMNS, Absent, Position, Sees, Source
from incload_assets.loading.sources.debezium import Debezium
from incload_assets.loading.sources.files import Files
from incload_assets.loading.sources.kafka import Kafka
from incload_assets.loading.sources.query_by_id import QueryById
from incload_assets.loading.sources.query_by_time import QueryByTime
from incload_assets.loading.sources.read_errors import read_error
from incload_assets.loading.sources.reading_json import json_records
from incload_assets.loading.sources.several import Several
from incload_assets.loading.sources.staging import staged_json

__all__ = [
    "EXTRACTED_COLUMNS",
    "Absent",
    "Debezium",
    "Files",
    "Kafka",
    "Position",
    "QueryById",
    "QueryByTime",
    "Sees",
    "Several",
    "Source",
    "json_records",
    "read_error",
    "staged_json",
]

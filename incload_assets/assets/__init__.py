"""The public API for authors of tables and kinds of sources, and the Dagster assets made from tables."""

from incload_assets.assets.as_of import read_as_of
from incload_assets.assets.derived import Upstream, derived_asset
from incload_assets.assets.incremental import incremental_asset
from incload_assets.contract.protection import Dropped, Encrypted, Hashed, InClear, Masked, Tokenized
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.eras import Era
from incload_assets.declaration.evolution import Evolution
from incload_assets.declaration.operations import Operations
from incload_assets.declaration.slo import Slo
from incload_assets.declaration.source import EXTRACTED_COLUMNS, Absent, DetectRequest, Position, Shows, Source
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import Freshness, Quarantine
from incload_assets.sources.database.query_by_id import QueryById
from incload_assets.sources.database.query_by_time import QueryByTime
from incload_assets.sources.database.replication_slot import ReplicationSlot
from incload_assets.sources.debezium.debezium import Debezium
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.json import json_records
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.several import Several
from incload_assets.sources.staging import staged_json
from incload_assets.sources.unwrapped import Unwrapped
from incload_assets.writes.append import Append
from incload_assets.writes.delete_insert import DeleteInsert
from incload_assets.writes.fold import Fold
from incload_assets.writes.full_reload import FullReload
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from incload_assets.writes.overwrite import Overwrite
from incload_assets.writes.snapshot import Snapshot

__all__ = [
    "EXTRACTED_COLUMNS",
    "Absent",
    "Append",
    "Changes",
    "Debezium",
    "DeleteInsert",
    "DetectRequest",
    "Dropped",
    "Encrypted",
    "Era",
    "Evolution",
    "Files",
    "Fold",
    "Freshness",
    "FullReload",
    "Hashed",
    "History",
    "InClear",
    "Kafka",
    "Masked",
    "Merge",
    "Operations",
    "Overwrite",
    "Position",
    "Quarantine",
    "QueryById",
    "QueryByTime",
    "ReplicationSlot",
    "Several",
    "Shows",
    "Slo",
    "Snapshot",
    "Source",
    "Subject",
    "Tokenized",
    "Unwrapped",
    "Upstream",
    "derived_asset",
    "incremental_asset",
    "json_records",
    "read_as_of",
    "staged_json",
]

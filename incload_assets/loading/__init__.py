"""What a table's author needs; the modules beside this one are the road a row takes."""

from incload_assets.loading.asset import incremental_asset
from incload_assets.loading.changes import Changes
from incload_assets.loading.declaration import Freshness, Quarantine
from incload_assets.loading.derived import Upstream, derived_asset
from incload_assets.loading.sources.debezium import Debezium
from incload_assets.loading.sources.files import Files
from incload_assets.loading.sources.kafka import Kafka
from incload_assets.loading.sources.query_by_id import QueryById
from incload_assets.loading.sources.query_by_time import QueryByTime
from incload_assets.loading.sources.replication_slot import ReplicationSlot
from incload_assets.loading.sources.several import Several
from incload_assets.loading.writes.append import Append
from incload_assets.loading.writes.delete_insert import DeleteInsert
from incload_assets.loading.writes.fold import Fold
from incload_assets.loading.writes.full_reload import FullReload
from incload_assets.loading.writes.history import History
from incload_assets.loading.writes.merge import Merge
from incload_assets.loading.writes.overwrite import Overwrite
from incload_assets.loading.writes.snapshot import Snapshot

__all__ = [
    "Append",
    "Changes",
    "Debezium",
    "DeleteInsert",
    "Files",
    "Fold",
    "Freshness",
    "FullReload",
    "History",
    "Kafka",
    "Merge",
    "Overwrite",
    "Quarantine",
    "QueryById",
    "QueryByTime",
    "ReplicationSlot",
    "Several",
    "Snapshot",
    "Upstream",
    "derived_asset",
    "incremental_asset",
]

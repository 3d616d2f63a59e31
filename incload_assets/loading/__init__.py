"""What a table's author needs; the modules beside this one are the road a row takes."""

from incload_assets.loading.asset import incremental_asset
from incload_assets.loading.declaration import Changes, Freshness, Quarantine
from incload_assets.loading.sources.files import Files
from incload_assets.loading.writes.append import Append
from incload_assets.loading.writes.delete_insert import DeleteInsert
from incload_assets.loading.writes.full_reload import FullReload
from incload_assets.loading.writes.history import History
from incload_assets.loading.writes.merge import Merge
from incload_assets.loading.writes.overwrite import Overwrite
from incload_assets.loading.writes.snapshot import Snapshot

__all__ = [
    "Append",
    "Changes",
    "DeleteInsert",
    "Files",
    "Freshness",
    "FullReload",
    "History",
    "Merge",
    "Overwrite",
    "Quarantine",
    "Snapshot",
    "incremental_asset",
]

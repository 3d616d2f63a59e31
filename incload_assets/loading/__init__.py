"""What a table's author needs; the modules beside this one are the road a row takes."""

from incload_assets.loading.asset import incremental_asset
from incload_assets.loading.declaration import Changes, Freshness, Quarantine
from incload_assets.loading.sources.files import Files
from incload_assets.loading.writes.merge import Merge

__all__ = ["Changes", "Files", "Freshness", "Merge", "Quarantine", "incremental_asset"]

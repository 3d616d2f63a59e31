"""Where changes come from: the contract of a source, and the kinds there are."""

from incload_assets.loading.sources.base import EXTRACTED_COLUMNS, Absent, Position, Sees, Source
from incload_assets.loading.sources.files import Files
from incload_assets.loading.sources.read_errors import read_error

__all__ = ["EXTRACTED_COLUMNS", "Absent", "Files", "Position", "Sees", "Source", "read_error"]

"""Object stores: where paths with a scheme are, and how fsspec, deltalake and Spark reach them."""

from incload_assets.platform.object_stores.known import (
    STORES,
    better_address,
    in_object_store,
    kind_of,
    object_store,
    with_own_scheme,
)
from incload_assets.platform.object_stores.store import DRIVER_FOLDER, Failure, ObjectStore, StoredObject

__all__ = [
    "DRIVER_FOLDER",
    "STORES",
    "Failure",
    "ObjectStore",
    "StoredObject",
    "better_address",
    "in_object_store",
    "kind_of",
    "object_store",
    "with_own_scheme",
]

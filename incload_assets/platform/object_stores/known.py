"""The object stores that paths may be in."""

from incload_assets.platform.object_stores.azure import Azure
from incload_assets.platform.object_stores.google import Google
from incload_assets.platform.object_stores.s3 import S3
from incload_assets.platform.object_stores.store import ObjectStore

STORES: tuple[type[ObjectStore], ...] = (S3, Azure, Google)
"""The kinds of object stores."""
_OF_SCHEME = {scheme: kind for kind in STORES for scheme in (kind.scheme, *kind.spellings)}
_INSTEAD = {
    **dict.fromkeys(("az", "abfs", "adl", "wasb", "wasbs", "azure", "https", "http"), Azure.form),
    "gcs": Google.form,
}


def kind_of(path: str) -> type[ObjectStore] | None:
    """The kind of object store that a path, in any spelling, is in; None for a folder."""
    scheme, found, _ = path.partition("://")
    return _OF_SCHEME.get(scheme) if found else None


def in_object_store(path: str) -> bool:
    """True if a full path, as templates produce it, is in an object store and not in a folder."""
    return (kind := kind_of(path)) is not None and path.startswith(f"{kind.scheme}://")


def object_store(path: str) -> ObjectStore:
    """The object store of a full path that is in one."""
    kind = kind_of(path)
    assert kind is not None, path
    return kind.of(path)


def with_own_scheme(path: str) -> str:
    """A path with the scheme under which its store is known here: ``s3a`` is ``s3``."""
    kind = kind_of(path)
    return path if kind is None else f"{kind.scheme}://{path.partition('://')[2]}"


def better_address(path: str) -> str | None:
    """The address to write instead of a path that no client understands; None if all do, or it is a folder."""
    scheme, found, _ = path.partition("://")
    if not found or scheme == "file":
        return None
    if (kind := _OF_SCHEME.get(scheme)) is None:
        return _INSTEAD.get(scheme) or ", ".join(["a folder", *(known.form for known in STORES)])
    try:
        kind.of(with_own_scheme(path))
    except ValueError:
        return kind.form
    return None

"""Atomic writes of files below a root, which a folder or a bucket holds."""

from pathlib import Path

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.object_stores import in_object_store, object_store
from incload_assets.platform.whole_files import replace_file
from incload_assets.sources.files.storage import store_of
from incload_assets.sources.files.template import absolute


def write_file(root: str, path: str, content: bytes) -> None:
    """Writes one file under a root, a folder or a path in an object store, atomically replacing an earlier version.

    Raises IncrementalLoadError, which names the file, if it cannot be written; an earlier version is untouched.
    """
    target = f"{absolute(root)}/{path}"
    try:
        if in_object_store(target):
            store_of(target).pipe_file(target, content)  # one put, which the store makes visible as a whole
        else:
            replace_file(Path(target), content)
    except Exception as error:
        failure = object_store(target).failure(error) if in_object_store(target) else None
        if failure is None and not isinstance(error, OSError):
            raise
        # the full message of a store may contain secrets
        reason = getattr(error, "strerror", None) or "no further reason"
        raise IncrementalLoadError(
            f"shop: cannot write {target}: {type(error).__name__}, {reason}",
            rule="the shop must be able to write to the landing root",
            remedy="free space or grant access there, or set INCLOAD_LANDING to another place, and advance again",
        ) from None

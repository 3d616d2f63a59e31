"""Atomic writes of files below a root, which a folder or a bucket holds."""

from pathlib import Path

from botocore import exceptions as boto
from fsspec.exceptions import FSTimeoutError

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.object_store import is_s3
from incload_assets.platform.whole_files import replace_file
from incload_assets.sources.files.storage import store_of
from incload_assets.sources.files.template import absolute


def write_file(root: str, path: str, content: bytes) -> None:
    """Writes one file under a root, a folder or ``s3://bucket/prefix``, atomically replacing an earlier version.

    Raises IncrementalLoadError, which names the file, if it cannot be written; an earlier version is untouched.
    """
    target = f"{absolute(root)}/{path}"
    try:
        if is_s3(target):
            store_of(target).pipe_file(target, content)  # one put, which S3 makes visible as a whole
        else:
            replace_file(Path(target), content)
    except (OSError, boto.BotoCoreError, boto.ClientError, FSTimeoutError) as error:
        # the full message of a store may contain secrets
        reason = getattr(error, "strerror", None) or "no further reason"
        raise IncrementalLoadError(
            f"shop: cannot write {target}: {type(error).__name__}, {reason}",
            rule="the shop must be able to write to the landing root",
            remedy="free space or grant access there, or set INCLOAD_LANDING to another place, and advance again",
        ) from None

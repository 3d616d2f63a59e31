"""Atomic writes of local files: a reader sees each file whole or not at all."""

import os
import tempfile
from pathlib import Path


def replace_file(target: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a local file under a hidden name of its own and renames it, so that it survives a power cut, too.

    Threads and processes may write the same file at once: one of their contents remains.

    Args:
        mode: Who may read it then; before, only its owner can. By default everybody, for another user's Spark.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise

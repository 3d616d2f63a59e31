"""What files say, to whoever reads them byte by byte or with the tools of their format."""

from pathlib import Path

import pyarrow.parquet as pq


def texts(folder: Path) -> str:
    """All that any file below a folder says: its bytes, and for Parquet its values and statistics."""
    said = []
    for path in folder.rglob("*"):
        if path.is_file():
            said.append(path.read_bytes().decode("utf-8", "replace"))
            if path.suffix == ".parquet":
                said += [str(pq.read_table(path, partitioning=None).to_pylist()), str(pq.read_metadata(path).to_dict())]
    return "\n".join(said)

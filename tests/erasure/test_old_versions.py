"""All old versions of a Delta table go, and nothing of a commit that is under way when they go."""

from pathlib import Path

import pyarrow as arrow

from incload_assets.erasure.old_versions import remove_old_versions
from incload_assets.platform.lake import Lake


def append(lake: Lake, uri: str, number: int) -> None:
    assert lake.append(uri, arrow.table({"number": [number]}), "test", number)


def data_files(uri: str) -> set[Path]:
    return {path for path in Path(uri).rglob("*.parquet") if path.parent.name != "_delta_log"}


def test_files_that_are_written_after_the_barrier_was_raised_stay_for_their_commit(tmp_path: Path) -> None:
    lake, uri = Lake(root=str(tmp_path)), f"{tmp_path}/items"
    append(lake, uri, 1)
    later = Path(uri) / "of-a-load-that-begins-now.parquet"
    remove_old_versions(lake, uri, later.touch)
    assert later.exists()


def test_files_that_were_written_before_the_barrier_was_raised_are_removed_or_in_use(tmp_path: Path) -> None:
    lake, uri = Lake(root=str(tmp_path)), f"{tmp_path}/items"
    append(lake, uri, 1)
    (Path(uri) / "of-a-load-that-was-killed.parquet").write_bytes(b"rows")
    made = remove_old_versions(lake, uri, lambda: append(lake, uri, 2))
    assert (made.files, made.size) == (1, 4)
    delta = lake.delta(uri)
    assert delta is not None
    assert {Path(path) for path in delta.file_uris()} == data_files(uri)
    assert sorted(delta.to_pyarrow_table()["number"].to_pylist()) == [1, 2]

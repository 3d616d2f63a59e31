"""Where there is no Java, a person at a terminal is asked whether to install one."""

import os
import pty
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.support.project_copy import Clone, without_java


def test_a_person_who_wants_no_java_is_told_how_to_get_one(tmp_path: Path) -> None:
    clone, empty = Clone.of(tmp_path / "clone", "local"), tmp_path / "empty"
    empty.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        clone.command("dev", "--port", str(port)),
        cwd=clone.root,
        env=clone.environment(INCLOAD_SAMPLES="false", **without_java(empty)),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    os.write(person, b"n\n")
    said = b""
    with suppress(OSError):  # its end, on Linux
        while more := os.read(person, 4096):
            said += more
    assert process.wait(60) == 1
    told = said.decode()
    assert "Install one from PyPI, for this project alone (incload[java], 50 MB)? [Y/n]" in told
    assert "Remedy: install one from PyPI (`pip install 'incload[java]'`)" in told

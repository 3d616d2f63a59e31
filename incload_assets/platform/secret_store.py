"""Secrets by name, from a command of a secret store or from a folder of files that only their owner may read.

A value ``secret:NAME`` in a setting names a secret. One of two settings says where it is:

- ``INCLOAD_SECRET_COMMAND``, for example ``pass show {name}``: run without a shell, its output is the secret.
- ``INCLOAD_SECRET_FOLDER``: a folder with a file for each secret.

A secret is asked for again after some minutes, so that a rotated one is found without a restart. Output of the command
is never shown: not in errors, and what it writes to its error stream is dropped.
"""

import os
import re
import shlex
import signal
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock

from incload_assets.platform.errors import SourceUnavailable

PREFIX = "secret:"
"""The beginning of a value that names a secret."""
COMMAND, FOLDER = "INCLOAD_SECRET_COMMAND", "INCLOAD_SECRET_FOLDER"
MAX_AGE_SECONDS = 300.0
"""How long a process uses a secret before it asks again."""
COMMAND_SECONDS = 20.0
"""The time limit of the command."""
NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]|/(?=[A-Za-z0-9_]))*")
"""The form of a name: no name is an option of a command, or a way out of the folder."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_known: dict[tuple[str, str, str], tuple[float, str]] = {}
_asking = Lock()


def resolved(value: str) -> str:
    """The secret that a value names; a value that names none as it is.

    Raises:
        ValueError: The secret cannot be had; the message names it, the setting and the remedy, and no value.
        SourceUnavailable: The command did not end in time.

    Example:
        >>> resolved("not a secret")
        'not a secret'
    """
    if not value.startswith(PREFIX):
        return value
    name, command, folder = value.removeprefix(PREFIX), os.environ.get(COMMAND, ""), os.environ.get(FOLDER, "")
    if not NAME.fullmatch(name):
        raise ValueError(f"{PREFIX}… is followed by no name of a secret: letters, digits and _ . - /")
    if bool(command) == bool(folder):
        both = "both are" if command else "neither is"
        raise ValueError(f"secret {name!r}: of {COMMAND} and {FOLDER} one has to be set, and {both}")
    place = (command, folder, name)
    with _asking:
        known = _known.get(place)
        if known is None or time.monotonic() - known[0] > MAX_AGE_SECONDS:
            _known.pop(place, None)
            found = _of_command(command, name) if command else _of_folder(Path(folder), name)
            if not found:
                raise ValueError(f"secret {name!r}: it is empty")
            _known[place] = known = (time.monotonic(), found)
    return known[1]


def forget() -> None:
    """Makes the next use of each secret ask for it again."""
    with _asking:
        _known.clear()


def _of_command(command: str, name: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        raise ValueError(f"secret {name!r}: {COMMAND} has an open quotation mark") from None
    if not any("{name}" in word for word in words[1:]):
        raise ValueError(f"secret {name!r}: {COMMAND} has no {{name}}, for example: pass show {{name}}")
    words = [word.replace("{name}", name) for word in words]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what the command has started ends with it
        )
    except OSError as error:
        raise ValueError(f"secret {name!r}: {COMMAND} cannot be run ({type(error).__name__})") from None
    try:
        output, _ = process.communicate(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        raise SourceUnavailable(
            f"secret {name!r}: {COMMAND} did not end within {COMMAND_SECONDS:.0f} s",
            remedy="run the command by hand; it must not ask for anything",
        ) from None
    if process.returncode:
        raise ValueError(f"secret {name!r}: {COMMAND} ended with {process.returncode}; run it by hand to see why")
    try:
        return output.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError(f"secret {name!r}: the output of {COMMAND} is no text") from None


def _of_folder(folder: Path, name: str) -> str:
    path = folder / name
    try:
        for part in (folder, path):
            found = part.stat()
            if found.st_mode & _OTHERS or found.st_uid not in (os.getuid(), 0):
                raise ValueError(
                    f"secret {name!r}: others than its owner have access to {'its file' if part is path else FOLDER}; "
                    f"chmod {'600' if part is path else '700'}"
                )
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"secret {name!r}: no readable file in {FOLDER} ({type(error).__name__})") from None

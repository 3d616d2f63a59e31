"""``dagster dev`` as a process below ``incload dev``: its log, whether it is up, how it ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

KNOWN_WARNINGS = (
    "Function `dev_command` is superseded",  # its successor `dg dev` wants another layout of the project
    "Parameter `backfill_policy` of function `asset` is currently in beta",
)
_LOG_BYTES = 10_000_000
"""The size at which the log begins anew."""
_END_SECONDS = 40.0  # it gives the web server and the daemon fifteen each


class DagsterProcess:
    """``dagster dev``, started.

    Args:
        workspace: The ``workspace.yaml``.
        host: Address the UI listens on.
        port: Port of the UI.
        log: Where it prints; None: where this process does.
    """

    def __init__(self, workspace: Path, host: str, port: int, log: Path | None) -> None:
        self.log = log
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{port}"
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
            if log.exists():
                log.replace(log.with_suffix(".log.1"))
        # appended to, so that a log that begins anew begins at its beginning
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", host, "-p", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PYTHONWARNINGS": ",".join(f"ignore:{start}" for start in KNOWN_WARNINGS), **os.environ},
                process_group=0,  # a terminal's Ctrl-C reaches this process alone, which passes it on once
            )
        finally:
            if output is not None:
                os.close(output)

    def is_up(self) -> bool:
        """Whether the UI answers."""
        try:
            with urlopen(f"{self.address}/server_info", timeout=5):
                return True
        except (URLError, OSError):
            return False

    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def bound_log(self) -> None:
        """Have the log begin anew if it has become large."""
        if self.log and self.log.stat().st_size > _LOG_BYTES:
            os.truncate(self.log, 0)

    def last_words(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-5:]) if self.log else ""

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does; its runs go on, and so do the servers that nobody owns."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait until it has ended, and end it by force if that takes too long."""
        deadline = time.monotonic() + _END_SECONDS
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(deadline - time.monotonic())
            return
        self.kill()

    def kill(self) -> None:
        """End it and what is below it at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

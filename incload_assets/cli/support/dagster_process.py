"""``dg dev`` as a child process of ``incload dev``: its start, its log and its end."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from incload_assets.platform.project_files import WORKSPACE, ProjectFiles

_LOG_BYTES = 10_000_000
"""The size at which the log is truncated."""
_END_LINES = 60
_OWN_ERROR = re.compile(r"Error: (.+)")
_END_SECONDS = 40.0  # `dagster dev` itself waits fifteen seconds each for the web server and the daemon


class DagsterProcess:
    """A running ``dg dev`` with its UI at an address; its output goes to the log, if there is one."""

    def __init__(self, project: ProjectFiles, host: str, port: int, log: Path | None) -> None:
        self.log = log
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{port}"
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
            if log.exists():
                log.replace(log.with_suffix(".log.1"))
        # opened for appending, so that writing continues at the beginning after a truncation
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else None
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # a script starts background processes so, and Dagster would inherit it and never hear of its interrupt
            signal.signal(signal.SIGINT, signal.default_int_handler)
        described = project.file.name != WORKSPACE
        # errors in YAML are reported when the code location loads
        target = ["--use-active-venv", "--no-check-yaml"] if described else ["--workspace", str(project.file)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dagster_dg_cli.cli", "dev", *target, "--host", host, "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,  # a terminal's Ctrl-C reaches only this process, which passes it on once
            )
        finally:
            if output is not None:
                os.close(output)

    def is_up(self) -> bool:
        """True if the UI answers."""
        try:
            with urlopen(f"{self.address}/server_info", timeout=5):
                return True
        except (URLError, OSError):
            return False

    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def bound_log(self) -> None:
        """Truncates the log if it has become large."""
        if self.log and self.log.stat().st_size > _LOG_BYTES:
            os.truncate(self.log, 0)

    def last_words(self) -> str:
        """The last error of this package in the end of the log, or else the last lines."""
        lines = self.log.read_text(errors="replace").splitlines()[-_END_LINES:] if self.log else []
        own = [found[1] for line in lines if (found := _OWN_ERROR.match(line))]
        return own[-1] if own else "\n".join(lines[-5:])

    def interrupt(self) -> None:
        """Requests the process to end, as Ctrl-C does; runs and servers on demand continue."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Waits until the process has ended, and kills it if that takes too long."""
        deadline = time.monotonic() + _END_SECONDS
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(deadline - time.monotonic())
            return
        self.kill()

    def kill(self) -> None:
        """Kills the process and its children at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

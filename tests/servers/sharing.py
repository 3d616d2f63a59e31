"""One server for the whole test run, also where tests run in several processes: started by the first that needs it.

Who uses a server holds a shared lock on a file beside it. The server's keeper (this module, run as a program) waits for
the exclusive lock, which it gets when the last user has ended, however it ended, and stops the server.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from incload_assets.platform.local_servers.locks import exclusive

ROOT = Path(__file__).parents[2]
_keepers: list[subprocess.Popen[bytes]] = []
"""They outlive this process."""


@contextmanager
def shared(folder: Path, start: Callable[[Path], tuple[Sequence[str | Path], str]]) -> Iterator[str]:
    """A server's address, for as long as the block runs; the server is started if nobody uses it yet.

    Args:
        folder: Of the server; the same in every process of the test run.
        start: Prepares the (then empty) folder given; returns the command of the server and its address. The server's
            output goes to the file ``log`` in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    users = os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(users, fcntl.LOCK_SH)
        with exclusive(folder / "starting", 280) as held:  # the first start may fetch jars
            if not held:
                raise RuntimeError(f"another process is starting the server in {folder} for too long")
            address = folder / "address"
            if not address.exists():
                own = folder / f"since-{time.time_ns()}"
                own.mkdir()
                command, where = start(own)
                _keep(folder, own, command)
                address.write_text(where)
        yield address.read_text()
    finally:
        os.close(users)


def _keep(folder: Path, own: Path, command: Sequence[str | Path]) -> None:
    with (own / "log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.sharing", folder, *command],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    _keepers.append(keeper)


def keep(folder: Path, command: Sequence[str]) -> None:
    """Run a server until nobody uses it any more."""
    server = subprocess.Popen(command, cwd=folder)
    users = os.open(folder / "users", os.O_RDWR)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # only the last user's end ends it
    fcntl.flock(users, fcntl.LOCK_EX)  # held until this process has ended: who comes now waits, and starts again
    (folder / "address").unlink(missing_ok=True)
    server.terminate()
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2:])

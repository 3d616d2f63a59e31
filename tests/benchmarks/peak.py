"""Loads in a process and on a Spark server of their own; prints the most memory that each had, as JSON, in bytes.

    python -m tests.benchmarks.peak LAKE LANDING WINDOW ...

``INCLOAD_HOME`` has to be a folder of this process's own. For Linux, which keeps count.
"""

import json
import os
import re
import sys
from pathlib import Path

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from incload_assets.platform.spark.server_files import ServerFiles
from tests.benchmarks.items import Items


def main(lake: str, landing: str, *windows: str) -> None:
    """Load the windows, oldest first."""
    settings = Settings(spark="local")
    try:
        with open_session(settings) as spark:
            table = Items(rows=0, changes=0).table(spark, Path(lake), Path(landing))
            for window in windows:
                table.load(window)
            server = ServerFiles.of(settings.home_root).read()
            assert server is not None
            print(json.dumps({"loading process": _peak(os.getpid()), "Spark server": _peak(server.jvm_pid)}))
    finally:
        connect_server.stop(settings)


def _peak(process: int) -> int:
    """The largest resident set so far."""
    told = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert told is not None
    return int(told[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])

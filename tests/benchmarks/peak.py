"""Loads in a process and on a Spark server of their own; prints the most memory that each had, as JSON, in bytes.

    python -m tests.benchmarks.peak LAKE LANDING WINDOW ...

``INCLOAD_HOME`` has to be a folder of this process's own. For Linux, which keeps count.
"""

import json
import os
import sys
from pathlib import Path

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from incload_assets.platform.spark.server_files import ServerFiles
from tests.benchmarks.child import peak_of
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
            print(json.dumps({"loading process": peak_of(os.getpid()), "Spark server": peak_of(server.jvm_pid)}))
    finally:
        connect_server.stop(settings)


if __name__ == "__main__":
    main(*sys.argv[1:])

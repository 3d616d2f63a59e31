"""Background task of ``incload dev``: starts the warm servers, so that the first run is as quick as the others."""

from contextlib import suppress
from pathlib import Path

from incload_assets.platform.settings import Settings
from incload_assets.runs.warm_servers import ColdRun, code_locations, start

if __name__ == "__main__":
    with suppress(ColdRun):  # the first run reports the reason
        for code in code_locations(Path("workspace.yaml")):
            start(Settings(), code)

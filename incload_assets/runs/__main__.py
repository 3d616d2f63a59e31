"""Background task of ``incload dev``: starts the warm servers, so that the first run is as quick as the others."""

from contextlib import suppress
from pathlib import Path

from incload_assets.platform.project_files import find_project
from incload_assets.platform.settings import Settings
from incload_assets.runs.warm_servers import ColdRun, code_pointer, start

if __name__ == "__main__":
    with suppress(ColdRun):  # the first run reports the reason
        start(Settings(), code_pointer(find_project(Path.cwd())))

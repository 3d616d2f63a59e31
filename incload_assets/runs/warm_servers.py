"""The warm servers that runs are forked from, one per code location of a workspace: finding, starting, stopping."""

import hashlib
import json
import os
import re
from pathlib import Path

from incload_assets.platform.dagster_private import (
    CodePointer,
    ModuleCodePointer,
    ReconstructableRepository,
    serialize_value,
)
from incload_assets.platform.local_servers.on_demand import OnDemand
from incload_assets.platform.local_servers.supervisor import Record, SupervisedFolder
from incload_assets.platform.project_files import ProjectFiles
from incload_assets.platform.settings import Settings

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_FAULT = re.compile(r"^\S*(Error|Exception)\b")
_FOLDER = "warm_runs"


class ColdRun(Exception):
    """Raised if a run cannot be forked; the message is the reason."""


def warm_server(settings: Settings, code: CodePointer) -> OnDemand:
    """The warm server of a code location; each has its own, because two may have modules of the same name.

    So has each environment: a server whose settings are others ends.
    """
    name = hashlib.sha256(f"{code!r}{settings.environment}".encode()).hexdigest()[:12]
    return _server(settings.home_root / _FOLDER / name)


def start(settings: Settings, code: CodePointer) -> Record:
    """Finds or starts the warm server of a code location, which is up then; ColdRun if it cannot be started."""
    order = {
        "directory": os.getcwd(),
        "code": serialize_value(ReconstructableRepository(code)),
        "idle_seconds": settings.spark_idle_minutes * 60,
    }
    return warm_server(settings, code).find_or_start(lambda: json.dumps(order).encode(), _START_SECONDS)


def stop_warm_servers(settings: Settings) -> bool:
    """Stops all warm servers, but not their runs; returns whether there was one."""
    folders = (settings.home_root / _FOLDER).glob("*/")
    return any([_server(folder).stop(_STOP_SECONDS) for folder in folders])


def code_pointer(project: ProjectFiles) -> CodePointer:
    """The code location of a project, in the form in which runs name it."""
    return ModuleCodePointer(project.module, project.attribute or "defs", str(project.root))


def _server(folder: Path) -> OnDemand:
    files = SupervisedFolder.under(folder.parent, folder.name)
    return OnDemand(files, "incload_assets.runs.warm_server", _FAULT, ColdRun)

"""The processes that runs are forked from, one for each code location of a workspace: found, started, ended."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from dagster._core.code_pointer import CodePointer, ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.workspace.load import location_origins_from_yaml_paths
from dagster._serdes import serialize_value

from resources.local_servers.on_demand import OnDemand
from resources.local_servers.supervisor import Record, SupervisedFolder
from resources.settings import Settings

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_FAULT = re.compile(r"^\S*(Error|Exception)\b")
_FOLDER = "warm_runs"


class ColdRun(Exception):
    """A run cannot be forked, and why."""


def warm_server(settings: Settings, code: CodePointer) -> OnDemand:
    """The process that the runs of a code location are forked from.

    Args:
        settings: Of the workspace.
        code: The code location; each has a process of its own, as two may have modules of one name.
    """
    name = hashlib.sha256(repr(code).encode()).hexdigest()[:12]
    return _server(settings.home_root / _FOLDER / name)


def start(settings: Settings, code: CodePointer) -> Record:
    """The process that the runs of a code location are forked from; it is up when this returns.

    Raises:
        ColdRun: It cannot be had.
    """
    order = {
        "directory": os.getcwd(),
        "code": serialize_value(ReconstructableRepository(code)),
        "idle_seconds": settings.spark_idle_minutes * 60,
    }
    return warm_server(settings, code).find_or_start(lambda: json.dumps(order).encode(), _START_SECONDS)


def stop_warm_servers(settings: Settings) -> bool:
    """End the processes that runs are forked from, not the runs; whether there was one."""
    folders = (settings.home_root / _FOLDER).glob("*/")
    return any([_server(folder).stop(_STOP_SECONDS) for folder in folders])


def code_locations(workspace: Path) -> Iterator[CodePointer]:
    """The code locations of a ``workspace.yaml`` that are modules, as their runs name them."""
    for origin in location_origins_from_yaml_paths([str(workspace)]):
        if isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin):
            target = origin.loadable_target_origin
            if target.module_name and not target.executable_path:
                yield ModuleCodePointer(target.module_name, target.attribute or "defs", target.working_directory)


def _server(folder: Path) -> OnDemand:
    files = SupervisedFolder.under(folder.parent, folder.name)
    return OnDemand(files, "incload_assets.runs.warm_server", _FAULT, ColdRun)

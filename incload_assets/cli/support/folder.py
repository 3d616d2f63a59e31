"""The project's folder and environment, entered before anything of Dagster is imported."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from incload_assets.platform.environment import ENVIRONMENT, NAME, environment_of_branch
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.project_files import ProjectFiles, find_project

_CONFIGURATION = "dagster.yaml"


def enter_project() -> ProjectFiles:
    """Changes into the project's folder and loads its ``.env`` and ``DAGSTER_HOME``; returns the project.

    ``dagster dev`` does so, too, so relative paths in settings have the same meaning in both.

    Raises:
        IncrementalLoadError: The current folder is not in a project.
    """
    project = find_project(Path.cwd())
    root = project.root
    from dotenv import load_dotenv  # here: the help of commands needs none

    os.chdir(root)
    os.environ["PWD"] = str(root)  # the .env writes ${PWD}
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # as Dagster does, so that a project works before it is installed
    load_dotenv(root / ".env", override=True)  # wins over the environment, as in `dagster dev`
    environment = os.environ.get(ENVIRONMENT, environment_of_branch())
    if not NAME.fullmatch(environment):  # the settings refuse it, with the rule
        environment = ""
    shared = root / ".dagster_home"
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(shared / environment)))
    if not home.is_absolute():
        raise IncrementalLoadError(
            f"DAGSTER_HOME is {str(home)!r}",
            rule="it is an absolute path",
            remedy="set the full path, or unset it",
        )
    if environment and home == shared:
        raise IncrementalLoadError(
            f"DAGSTER_HOME is {home}, and the environment is {environment}",
            rule="an environment has a Dagster state of its own, and this is the one of the environment without a name",
            remedy=f"write DAGSTER_HOME=${{PWD}}/{shared.name}/${{INCLOAD_ENVIRONMENT:-}} in {root / '.env'}, "
            "and below it nothing that sets INCLOAD_ENVIRONMENT",
        )
    home.mkdir(parents=True, exist_ok=True)
    if environment and home.name == environment and (home.parent / _CONFIGURATION).is_file():
        with suppress(FileExistsError):
            (home / _CONFIGURATION).symlink_to(Path("..", _CONFIGURATION))  # one queue's settings for all environments
    return project

"""The project's folder and environment, entered before anything of Dagster is imported."""

import os
from pathlib import Path

from incload_assets.platform.errors import IncrementalLoadError


def enter_project() -> Path:
    """Changes into the project's folder and loads its ``.env`` and ``DAGSTER_HOME``; returns the folder.

    ``dagster dev`` does so, too, so relative paths in settings have the same meaning in both.

    Raises:
        IncrementalLoadError: The current folder is not in a project.
    """
    here = Path.cwd()
    package = Path(__file__).resolve().parents[3]
    root = next((folder for folder in (here, *here.parents, package) if (folder / "workspace.yaml").is_file()), None)
    if root is None:
        raise IncrementalLoadError(
            f"there is no workspace.yaml in {here} or above it",
            rule="incload works in the folder of a code location",
            remedy="change into such a folder and try again",
        )
    from dotenv import load_dotenv  # here: the help of commands needs none

    os.chdir(root)
    os.environ["PWD"] = str(root)  # the .env writes ${PWD}
    load_dotenv(root / ".env", override=True)  # wins over the environment, as in `dagster dev`
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(root / ".dagster_home")))
    if not home.is_absolute():
        raise IncrementalLoadError(
            f"DAGSTER_HOME is {str(home)!r}",
            rule="it is an absolute path",
            remedy="set the full path, or unset it",
        )
    home.mkdir(parents=True, exist_ok=True)
    return root

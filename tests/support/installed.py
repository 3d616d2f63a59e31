"""The package as a wheel installs it: in a virtual environment of its own, without this repository on its path."""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.documents import PROJECT


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel.

    Args:
        root: Its folder.
    """

    root: Path

    @classmethod
    def of(cls, root: Path, code: Path = PROJECT) -> "Installed":
        """Build the wheel of a folder's code and install it. What it needs is that of the tests."""
        uv, copy = [sys.executable, "-m", "uv"], root.with_name(f"{root.name}-code")
        shutil.copytree(code / "incload_assets", copy / "incload_assets", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):  # a build writes beside them, and others build, too
            shutil.copy(code / name, copy)
        run = [
            [*uv, "venv", "--quiet", "--python", sys.executable, str(root)],
            [*uv, "build", "--quiet", "--wheel", "--out-dir", str(root / "dist"), str(copy)],
        ]
        for command in run:
            subprocess.run(command, check=True, capture_output=True)
        [wheel] = (root / "dist").glob("*.whl")
        install = [*uv, "pip", "install", "--quiet", "--no-deps", "--python", str(root), str(wheel)]
        subprocess.run(install, check=True, capture_output=True)
        [site] = root.glob("lib/python*/site-packages")
        # a folder on the path: .pth files in it, such as that of an editable installation, count for nothing
        (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return cls(root)

    def run(
        self, program: str, *arguments: str, folder: Path, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program of the environment in a folder, to its end.

        Args:
            program: Its name, such as ``incload``; a module where it is ``python -m …``.
            arguments: Its arguments.
            folder: The folder.
            environment: More variables.
        """
        plain = {
            k: v for k, v in os.environ.items() if not k.startswith(("INCLOAD_", "DAGSTER_")) and k != "PYTHONPATH"
        }
        modules = {"incload": "incload_assets.cli", "dg": "dagster_dg_cli.cli", "dagster": "dagster"}
        return subprocess.run(
            [str(self.root / "bin" / "python"), "-m", modules.get(program, program), *arguments],
            cwd=folder,
            env={**plain, "PWD": str(folder), "INCLOAD_KAFKA": "false", "NO_COLOR": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The environment."""
    return Installed.of(tmp_path_factory.mktemp("installed"))

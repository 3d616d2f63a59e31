"""Finds the cases of a conformance suite: a new case is one module, ``case_<name>.py``, and no list names it."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType


def case_modules(package: str, folder: Path) -> Iterator[ModuleType]:
    """The modules ``case_*`` of a package, by name.

    Args:
        package: Full name of the package.
        folder: Of the package.
    """
    for file in sorted(folder.glob("case_*.py")):
        yield import_module(f"{package}.{file.stem}")

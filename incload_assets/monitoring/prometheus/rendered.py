"""The files for Prometheus, Alertmanager and Grafana: written at once, and only if they have changed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.whole_files import replace_file

HEADER = "# Written by `incload monitoring render` from the declarations of tables; what is changed here is lost.\n"
_OURS = (HEADER, '"uid": "incload-')
"""What files that we have written contain."""


def as_yaml(content: Mapping[str, Any]) -> str:
    """The content of a YAML file."""
    return HEADER + yaml.dump(dict(content), Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """A dumper that repeats what occurs twice, because aliases are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Writes files by path below a folder; returns the paths that have changed.

    Each file is replaced at once, so that a program that reads it meanwhile gets the old or the new one.

    Raises:
        IncrementalLoadError: A file of that name was not written by incload; nothing is written then.
    """
    texts = {name: _read(folder / name) for name in files}
    for name, text in texts.items():
        if text and not any(mark in text for mark in _OURS):
            raise IncrementalLoadError(
                f"{folder / name} was not written by incload",
                rule="files of others are left alone",
                remedy="move it away, or choose another folder",
            )
    changed = [name for name, text in files.items() if texts[name] != text]
    for name in changed:
        replace_file(folder / name, files[name].encode())
    return changed


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None

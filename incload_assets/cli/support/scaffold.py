"""The files of a new project, from the templates in ``cli/new_project``."""

import keyword
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from incload_assets.platform.errors import IncrementalLoadError

TEMPLATES = Path(__file__).parents[1] / "new_project"
"""Folders of templates: ``project``, and ``sample`` with a table. ``NAME``, ``DAY0`` to ``DAY2`` and a leading ``dot-``
in a path stand for the project's name, the three days before today, and a dot."""


def make_project(folder: Path, *, sample: bool) -> list[Path]:
    """Writes the files of a new project; returns them in the order of their paths.

    Args:
        folder: The project's folder, which may exist; its last part names the project and its package.
        sample: Whether the project gets a table with three days of data.

    Raises:
        IncrementalLoadError: The name is not that of a new package, or a file is there already; nothing is written.
    """
    name = _package_name(folder)
    today = datetime.now(UTC).date()
    days = [str(today - timedelta(days=back)) for back in (3, 2, 1)]
    texts = dict(_rendered(folder, name, days, ["project", "sample"] if sample else ["project"]))
    if there := sorted(file for file in texts if file.exists()):
        raise IncrementalLoadError(
            f"{there[0]} is there already",
            rule="a new project overwrites no file",
            remedy="choose another name, or remove the file",
        )
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return sorted(texts)


def _rendered(folder: Path, name: str, days: list[str], kinds: list[str]) -> Iterator[tuple[Path, str]]:
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    places = {"NAME": name} | {f"DAY{number}": day for number, day in enumerate(days)}
    for kind in kinds:
        for template in sorted((TEMPLATES / kind).rglob("*.jinja")):
            path = re.sub("|".join(places), lambda found: places[found[0]], str(template.relative_to(TEMPLATES / kind)))
            file = folder / re.sub(r"(^|/)dot-", r"\1.", path).removesuffix(".jinja")
            text = templates.get_template(template.relative_to(TEMPLATES).as_posix())
            yield file, text.render(name=name, days=days, version=version("incload"))


def _package_name(folder: Path) -> str:
    name = folder.resolve().name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise IncrementalLoadError(
            f"a project cannot be named {folder.resolve().name!r}",
            rule="its name is that of a Python package: small letters, digits and underscores, a letter first",
            remedy=f"try {_suggested(name)}",
        )
    if name == "tests" or (find_spec(name) is not None and not (folder / name).exists()):
        raise IncrementalLoadError(
            f"a project cannot be named {name!r}",
            rule="a package of that name is installed, or is the project's own folder of tests",
            remedy=f"try {name}_lake",
        )
    return name


def _suggested(name: str) -> str:
    letters = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")
    return letters if re.match("[a-z]", letters) and not keyword.iskeyword(letters) else f"lake_{letters}".rstrip("_")

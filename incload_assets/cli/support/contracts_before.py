"""The contracts that the declarations are compared with: the ones in a file, or the ones of the tables at a git ref."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from incload_assets.contract.described import TableContract, from_json
from incload_assets.platform.errors import IncrementalLoadError

_SECONDS = 120
_OF_A_HOOK = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
"""Variables that git sets for its hooks, with which it would take another repository or index."""


def contracts_before(file: Path, ref: str) -> dict[str, TableContract]:
    """The contracts of a file, if there is one, else of a git ref; an error if they cannot be read."""
    if file.is_file():
        return from_json(file.read_text(encoding="utf-8"), ref)
    return from_json(_shown_at(ref), f"incload contract show at {ref}")


def _shown_at(ref: str) -> str:
    """The output of ``incload contract show --json`` in a temporary work tree of a ref, by this Python."""
    root = Path.cwd()
    if ref.startswith("-") or _git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").returncode:
        raise IncrementalLoadError(
            f"there is no file {ref}, and no such commit in the git repository of {root}",
            rule="--against takes lake, a file of incload contract show, or a git ref",
            remedy="write the file: incload contract show --out contracts.json; or name a ref, for example main",
        )
    prefix = _git(root, "rev-parse", "--show-prefix").stdout.strip()
    with TemporaryDirectory(prefix="incload-contract-") as folder:
        tree = Path(folder, "tree")
        _done(_git(root, "worktree", "add", "--detach", str(tree), ref), ref)
        try:
            return _done(_show(tree / prefix), ref)
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return _run(root, ["git", *arguments], {n: value for n, value in os.environ.items() if n not in _OF_A_HOOK})


def _show(tree: Path) -> "subprocess.CompletedProcess[str]":
    # an environment in which the commit's own modules, .env and a fresh Dagster home are used
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    environment = kept | {"PWD": str(tree), "DAGSTER_HOME": str(tree / ".dagster_home"), "INCLOAD_ENVIRONMENT": ""}
    return _run(tree, [sys.executable, "-m", "incload_assets.cli", "contract", "show", "--json"], environment)


def _run(folder: Path, command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _done(process: "subprocess.CompletedProcess[str]", ref: str) -> str:
    if process.returncode == 0:
        return process.stdout
    said = [line.strip(" │") for line in process.stderr.splitlines() if any(map(str.isalnum, line))]
    raise IncrementalLoadError(
        f"the contracts at {ref} cannot be shown: {said[-1] if said else f'exit code {process.returncode}'}",
        rule="the code at the ref has incload contract show, and loads with the packages that are installed",
        remedy="name a newer ref, or compare with a file: incload contract show --out contracts.json",
    )

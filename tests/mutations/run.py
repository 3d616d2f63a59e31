"""Break the program line by line, and show that a test notices.

    python -m tests.mutations.run [--jobs N] [WORD ...]

Runs the mutants whose name contains one of the words, by default all. First the tests named must pass as the program
is. Ends with 1 if a mutant survives, or if its tests cannot be run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from tests.mutations.mutant import Mutant
from tests.mutations.mutants import MUTANTS

PROJECT = Path(__file__).parents[2]
PARTS = ("incload_assets", "resources", "tests", "pyproject.toml", "README.md")
PASSED, FAILED = 0, 1
SECONDS_PER_TEST = 300


def main() -> int:
    """Run mutants and print the outcome of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    mutants = [m for m in MUTANTS if not arguments.words or any(word in m.name for word in arguments.words)]
    with TemporaryDirectory(prefix="mutations-") as folder:
        settings = Settings(home=Path(folder), spark="local", spark_memory="6g", avro=True)
        remote = os.environ.get("INCLOAD_TEST_REMOTE") or connect_server.find_or_start(settings)
        try:
            tests = sorted({test for mutant in mutants for test in mutant.tests})
            with ThreadPoolExecutor(arguments.jobs) as pool:
                as_it_is = _copied(Path(folder, "as-it-is"))
                parts = [part for n in range(arguments.jobs) if (part := tests[n :: arguments.jobs])]
                if any(code != PASSED for code in pool.map(lambda part: _pytest(as_it_is, part, remote), parts)):
                    print("the tests do not pass as the program is")
                    return 1
                names = [Path(folder, str(number)) for number in range(len(mutants))]
                outcomes = list(pool.map(lambda mutant, name: is_killed(mutant, name, remote), mutants, names))
        finally:
            connect_server.stop(settings)
    print(f"{sum(outcomes)} of {len(mutants)} mutants killed")
    return 0 if all(outcomes) else 1


def is_killed(mutant: Mutant, folder: Path, remote: str) -> bool:
    """Whether a mutant's tests fail; says so."""
    start = time.monotonic()
    file = _copied(folder) / mutant.file
    try:
        file.write_text(mutant.applied(file.read_text()))
    except ValueError as error:
        word = str(error)
    else:
        code = _pytest(folder, mutant.tests, remote)
        word = {PASSED: "SURVIVED", FAILED: "killed"}.get(code, f"not run: pytest ended with {code}")
    shutil.rmtree(folder)
    print(f"{word:<10} {time.monotonic() - start:5.0f} s  {mutant.name} (law {mutant.law.split()[0]})", flush=True)
    return word == "killed"


def _copied(folder: Path) -> Path:
    for name in PARTS:
        target = folder / name
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / name, target)
    return folder


def _pytest(folder: Path, tests: Iterable[str], remote: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={SECONDS_PER_TEST}"]
    environment = {**os.environ, "INCLOAD_TEST_REMOTE": remote, "PYTHONPATH": str(folder), "INCLOAD_TEST_NIGHT": "0"}
    done = subprocess.run([*command, *tests], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode not in (PASSED, FAILED):
        print(done.stdout[-2000:], done.stderr[-2000:])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

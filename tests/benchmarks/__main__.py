"""All benchmarks: what a load costs, as ratios to other ways of doing the same.

    INCLOAD_SPARK=local python -m tests.benchmarks [ROW ...] [--scale small|full] [--pairs N] [--out FOLDER]

Both sides of each comparison run in turn, in this one process. Prints a table and writes ``results.json`` and
``results.svg``. A row that fails is told as failed, the others go on; the exit code is 1 then. Full scale takes hours
on a laptop and up to 10 GB of disk, so name the rows that you want: those that are not named stay as that folder has
them, each with the date of its measurement. A row that begins while others keep the processors busy is marked so.
"""

import argparse
import logging
import sys
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console

from incload_assets.platform.settings import Settings
from tests.benchmarks.bench import SMALL, Sizes, bench
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.report import Found, earlier, table, write
from tests.benchmarks.rows import ROWS

SCALES = {"full": (Sizes(), 5, 2), "small": (SMALL, 1, 0)}
"""Sizes, pairs that count, and rounds before them."""
WIDE = 150


def main() -> int:
    """Run what is asked for; the exit code."""
    asked = _arguments()
    logging.disable(logging.INFO)  # Dagster tells every step of every run
    sizes, pairs, warm_up = SCALES[asked.scale]
    sizes = replace(sizes, copied=asked.copied or sizes.copied)
    rows = asked.rows or list(ROWS)
    known = {row: told for row, told in earlier(asked.out, asked.scale).items() if row not in rows}
    comparisons: dict[str, list[Comparison]] = {row: known.get(row, []) for row in ROWS if row in known or row in rows}
    failed: dict[str, str] = {}
    found = Found(asked.scale, datetime.now(UTC), comparisons, failed)
    for row in rows:
        print(f"== {row}", flush=True)
        try:
            busy = others_are_busy()
            with bench(sizes, asked.pairs or pairs, warm_up) as means:
                for comparison in ROWS[row](means):
                    comparisons[row].append(replace(comparison, busy=busy))
                    write(found, asked.out)
        except Exception as error:  # the others are worth having
            traceback.print_exc()
            failed[row] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        write(found, asked.out)  # after each row: the next ones may take hours
    console = Console()
    console.width = max(console.width, WIDE)
    console.print(table(found))
    print(f"results.json and results.svg are in {asked.out}")
    return 1 if failed else 0


def others_are_busy() -> bool:
    """Whether other processes keep the processors busy, while this one waits for two seconds."""
    return psutil.cpu_percent(2) > 25


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="What a load costs, as ratios.")
    # argparse takes "none given" for a choice, too
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[[], *ROWS], help=f"of {', '.join(ROWS)}; all")
    parser.add_argument("--scale", choices=SCALES, default="full", help="small: to see that everything runs")
    parser.add_argument("--pairs", type=int, help="rounds that count")
    parser.add_argument("--copied", type=int, help="rows of the row bootstrap, for example 20000000")
    parser.add_argument("--out", type=Path, default=Settings().home_root / "benchmarks", help="folder of the results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

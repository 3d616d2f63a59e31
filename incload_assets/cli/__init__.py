"""The command line ``incload``: the same loads, checks and checkpoints as in the Dagster UI, from a terminal."""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

from incload_assets.cli.forked import forked

__all__ = ["app"]


def app() -> None:
    """Runs a command, in a fork of a process that has loaded the code location, or else in this process."""
    try:
        code = forked(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130  # a shell's exit code for Ctrl-C
    if code is not None:
        sys.exit(code)
    from incload_assets.cli.program import program  # imported here, because a fork's caller does not need it

    try:
        program()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            _leave(1)
        _leave(ended.code or 0)


def _leave(code: int) -> NoReturn:
    """Ends this process after its exit handlers.

    Arrow's threads now and then abort a process that ends as Python ends it, see https://github.com/apache/arrow/issues/34314.
    A command that has done its work would then have failed.
    """
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):  # whoever read the output has ended
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

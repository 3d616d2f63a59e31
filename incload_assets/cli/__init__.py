"""The command line, ``incload``: the same loads, checks and checkpoints as in the Dagster UI, from a terminal."""

import sys

from incload_assets.cli.forked import forked

__all__ = ["app"]


def app() -> None:
    """Run a command: in a fork of the process that has loaded the code location where there is one, else here."""
    try:
        code = forked(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130  # as a shell says of what ended by Ctrl-C
    if code is not None:
        sys.exit(code)
    from incload_assets.cli.program import program  # here: who only waits for a fork needs nothing of it

    program()

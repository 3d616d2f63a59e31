"""The command line ``incload``: the same loads, checks and checkpoints as in the Dagster UI, from a terminal."""

import sys

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

    program()

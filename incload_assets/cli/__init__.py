"""The command line, ``incload``: the same loads, checks and checkpoints as in the Dagster UI, from a terminal."""

from incload_assets.cli.app import app

__all__ = ["app"]

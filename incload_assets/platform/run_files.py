"""Smaller files of Dagster's runs, where its history is in SQLite: one file for each run, made of SQLite's pages.

Dagster makes the same 25 tables and indexes in the file of each run, and a run fills three. Every one occupies a
page at least, so pages of 4 kB, SQLite's default, make 115 kB of nothing. The size of pages is a property of a file:
older files, and the index of all runs, keep theirs.
"""

import re
from pathlib import Path
from typing import Any

PAGE = 1024
_OF_A_RUN = re.compile(r"/history/runs/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.db")


def keep_small() -> None:
    """Has this process make the files of runs with small pages."""
    from sqlalchemy import Engine, event  # half a second, which only processes that open Dagster's storage need

    if not event.contains(Engine, "do_connect", _with_small_pages):
        event.listen(Engine, "do_connect", _with_small_pages)


def _with_small_pages(dialect: Any, _: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
    """The connection to the file of a run that has no tables yet; None, so that others are opened as ever."""
    file = str(arguments[0]) if arguments else ""
    if dialect.name != "sqlite" or not _OF_A_RUN.search(file):
        return None
    if (path := Path(file)).exists() and path.stat().st_size > 0:
        return None
    connection = dialect.connect(*arguments, **options)
    connection.execute(f"PRAGMA page_size = {PAGE}")
    return connection

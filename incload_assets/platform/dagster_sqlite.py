"""How this process uses Dagster's SQLite files: the history of all runs in one file, and one more for each run.

**Small files.** Dagster makes the same 25 tables and indexes in the file of each run, and a run fills three. Every one
occupies a page at least, so pages of 4 kB, SQLite's default, make 115 kB of nothing. The size of pages is a property
of a file: older files, and the index of all runs, keep theirs.

**Engines.** Dagster makes an engine of SQLAlchemy for each query, which learns its dialect and compiles the statement
again. One engine for each file halves the time of a query. It keeps no connection: Dagster configures no pool, so each
query opens and closes the file.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from incload_assets.platform.dagster_private import sqlite_storages

PAGE = 1024
ENGINES, STATEMENTS = 32, 50
"""Number of files for which each storage keeps an engine, and of statements that each engine keeps: those used last."""
_OF_A_RUN = re.compile(r"/history/runs/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.db")


def tune_sqlite() -> None:
    """Has this process make the files of runs with small pages, and keep the engines of Dagster's files."""
    from sqlalchemy import Engine, event  # half a second, which only processes that open Dagster's storage need

    if event.contains(Engine, "do_connect", _with_small_pages):
        return
    event.listen(Engine, "do_connect", _with_small_pages)
    for storage in sqlite_storages()[1]:
        vars(storage)["create_engine"] = _engines(vars(storage)["create_engine"])


def _engines(create_engine: Callable[..., Any]) -> Callable[..., Any]:
    made, lock = OrderedDict[str, Any](), Lock()

    def engine(url: str, **options: Any) -> Any:
        with lock:
            made[url] = found = made.pop(url, None) or create_engine(url, query_cache_size=STATEMENTS, **options)
            if len(made) > ENGINES:
                made.popitem(last=False)
        return found

    return engine


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

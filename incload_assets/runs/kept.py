"""What Dagster and PySpark do anew many times in each run, done once, before runs are forked."""

import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

from alembic.script import ScriptDirectory
from dagster._core.storage import sql
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from sqlalchemy import Engine, create_engine


class _Migrations:
    from_config = staticmethod(cache(ScriptDirectory.from_config))


def keep() -> None:
    """Keep engines and what is searched for: a third of the processor's time of a run that finds nothing to load.

    - An engine holds no connection: Dagster gives it no pool, so each question opens the file and closes it. It holds
      what SQLAlchemy has compiled of each kind of question.
    - Dagster reads its migrations, some 90 modules, to learn the name of the last one when a file is first opened.
    - PySpark tries to import IPython at most calls, and Python does not remember what it has not found.
    """
    vars(sql)["ScriptDirectory"] = _Migrations
    for storage in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
        vars(storage)["create_engine"] = _engines()
        _Migrations.from_config(sql.get_alembic_config(storage.__file__)).as_revision_number("head")
    if find_spec("IPython") is None:
        sys.modules["IPython"] = None  # type: ignore[assignment]  # how Python is told that there is none


def _engines() -> Any:
    made: dict[str, Engine] = {}
    return lambda url, **options: made.get(url) or made.setdefault(url, create_engine(url, **options))

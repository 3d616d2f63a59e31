"""Caches for work that Dagster and PySpark repeat many times in each run, filled once before runs are forked."""

import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine

from incload_assets.platform.dagster_private import sqlite_storages


class _Migrations:
    from_config = staticmethod(cache(ScriptDirectory.from_config))


def keep() -> None:
    """Caches engines and lookups, which take a third of the processor time of a run that finds nothing to load.

    - A cached engine keeps no connection: Dagster configures no pool, so each query opens and closes the file. What it
      keeps are the statements that SQLAlchemy has compiled.
    - Dagster reads its migrations, some 90 modules, for the name of the last one when it first opens a file.
    - PySpark tries to import IPython in most calls, and Python does not cache failed imports.
    """
    sql, storages = sqlite_storages()
    vars(sql)["ScriptDirectory"] = _Migrations
    for storage in storages:
        vars(storage)["create_engine"] = _engines()
        _Migrations.from_config(sql.get_alembic_config(storage.__file__)).as_revision_number("head")
    if find_spec("IPython") is None:
        sys.modules["IPython"] = None  # type: ignore[assignment]  # marks the module as missing


def _engines() -> Any:
    made: dict[str, Engine] = {}
    return lambda url, **options: made.get(url) or made.setdefault(url, create_engine(url, **options))

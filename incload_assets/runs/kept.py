"""Lookups that Dagster and PySpark repeat many times in each run, made once before runs are forked."""

import sys
from functools import cache
from importlib.util import find_spec

from alembic.script import ScriptDirectory

from incload_assets.platform.dagster_private import sqlite_storages


class _Migrations:
    from_config = staticmethod(cache(ScriptDirectory.from_config))


def keep() -> None:
    """Keeps lookups that take a good part of the processor time of a run that finds nothing to load.

    - Dagster reads its migrations, some 90 modules, for the name of the last one when it first opens a file.
    - PySpark tries to import IPython in most calls, and Python does not cache failed imports.
    """
    sql, storages = sqlite_storages()
    vars(sql)["ScriptDirectory"] = _Migrations
    for storage in storages:
        _Migrations.from_config(sql.get_alembic_config(storage.__file__)).as_revision_number("head")
    if find_spec("IPython") is None:
        sys.modules["IPython"] = None  # type: ignore[assignment]  # marks the module as missing

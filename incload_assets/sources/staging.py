"""Staging of records in the landing area, for sources that Spark cannot reach."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import fsspec
from pyspark.sql import DataFrame, SparkSession

from incload_assets.platform.object_stores import in_object_store
from incload_assets.platform.settings import current_settings
from incload_assets.sources.files.json import read_json
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

FOLDER = "_staged"
"""Folder in the landing area; the underscore hides it from file templates."""
KEPT = timedelta(days=1)
"""How long files are kept; no load reads a file for longer."""
_ODD = r"^[._]|[^\w.-]"
"""Characters that some stores do not allow in file names, and initial dots and underscores, which hide from Spark."""


def staged_json(
    spark: SparkSession, table_name: str, name: str, records: Iterable[Mapping[str, Any]], fields: Iterable[str]
) -> DataFrame:
    """Records in the form of :meth:`Source.extract`, written to the landing area one by one and read there by Spark.

    An extract of any size passes through this process without being held in memory. The files serve only one load:
    when the table stages again, files older than a day are removed.

    Args:
        table_name: For messages, and the folder's name.
        name: Prefix of the file's name, which rows have as ``_source.file``.
        records: Input of ``json.dumps``; give numbers as strings if a float would lose digits.
        fields: Names of the members of ``_raw``.

    Raises:
        SourceUnavailable, SourceUnreadable: The landing area cannot be written.
    """
    template = Template.parse(table_name, "{landing}/*", current_settings().landing_root)
    folder = f"{template.root}/{FOLDER}/{table_name}"
    path = f"{folder}/{re.sub(_ODD, '-', name)}.{uuid4().hex[:12]}.json"
    store = store_of(path)
    with store_errors(table_name, folder):
        if not in_object_store(folder):
            store.makedirs(folder, exist_ok=True)
        _remove_old(store, folder)
        with store.open(path, "wb") as file:
            for record in records:
                # half a surrogate pair, which JSON allows, makes only its own record invalid UTF-8
                file.write(json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass") + b"\n")
    [read] = read_json(spark, template, [path], list(fields))
    return read.frame


def _remove_old(store: fsspec.AbstractFileSystem, folder: str) -> None:
    for path, known in store.find(folder, detail=True).items():
        changed = known.get("LastModified") or datetime.fromtimestamp(known["mtime"], UTC)
        if changed < datetime.now(UTC) - KEPT:
            with suppress(FileNotFoundError):  # another load removed it first
                store.rm_file(path)

"""Records of a source that Spark cannot reach, by way of the landing area."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import fsspec
from pyspark.sql import DataFrame, SparkSession

from incload_assets.sources.files.json import read_json
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template
from resources.object_store import is_s3
from resources.settings import current_settings

FOLDER = "_staged"
"""Folder of the landing area; its name hides it from the templates of files."""
KEPT = timedelta(days=1)
"""After this time nobody is still reading a file."""
_ODD = r"^[._]|[^\w.-]"
"""Signs that not every file's name can have; to Spark one that begins with a dot or an underscore is hidden."""


def staged_json(
    spark: SparkSession, table_name: str, name: str, records: Iterable[Mapping[str, Any]], fields: Iterable[str]
) -> DataFrame:
    """Records as :meth:`Source.extract` returns them, written to the landing area one by one and read there by Spark.

    So an extract of any size passes through this process, but never lies in its memory. The files are only for the one
    load: when the table stages again, those older than a day are removed.

    Args:
        spark: The session.
        table_name: For messages, and the folder's name.
        name: The beginning of the file's name, which rows have as ``_source.file``.
        records: What ``json.dumps`` takes; give numbers as text where a float would lose digits.
        fields: Names of the members of ``_raw``.

    Raises:
        SourceUnavailable, SourceUnreadable: The landing area cannot be written.
    """
    template = Template.parse(table_name, "{landing}/*", current_settings().landing_root)
    folder = f"{template.root}/{FOLDER}/{table_name}"
    path = f"{folder}/{re.sub(_ODD, '-', name)}.{uuid4().hex[:12]}.json"
    store = store_of(path)
    with store_errors(table_name, folder):
        if not is_s3(folder):
            store.makedirs(folder, exist_ok=True)
        _remove_old(store, folder)
        with store.open(path, "wb") as file:
            for record in records:
                # half a surrogate pair, which JSON can have, then makes a record that is not valid UTF-8
                file.write(json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass") + b"\n")
    [read] = read_json(spark, template, [path], list(fields))
    return read.frame


def _remove_old(store: fsspec.AbstractFileSystem, folder: str) -> None:
    for path, known in store.find(folder, detail=True).items():
        changed = known.get("LastModified") or datetime.fromtimestamp(known["mtime"], UTC)
        if changed < datetime.now(UTC) - KEPT:
            with suppress(FileNotFoundError):  # another load was quicker
                store.rm_file(path)

"""Windows that are read in chunks, killed and gone on with, while their source changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Merge, QueryById, QueryByTime
from incload_assets.change_log.chunks import Chunks, InChunks
from incload_assets.change_log.context import ReadSoFar
from incload_assets.declaration.write import Write
from tests.support.databases import NEWEST, Shop, shop
from tests.support.tables import Loaded, day, make

__all__ = ["shop"]

BY_TIME = QueryByTime("shop", "public.items", modified="changed")
BY_ID = QueryById("shop", "public.items", id="no")
FOUR = InChunks(4, 2)
OLDER = """INSERT INTO items (id, value, seq, changed)
  SELECT 'i' || n, 'v' || n, n,
    CASE WHEN n % 50 = 0 THEN NULL ELSE '2025-06-01'::timestamptz + n * '1 hour'::interval END
  FROM generate_series(1, 1000) AS n"""
ITEMS = "SELECT id, value, seq FROM items"


class Killed(BaseException):
    """What a test ends a process with."""


def killed_after(chunks: int) -> Any:
    """Ends a load when so many chunks were read."""
    keep, read = Chunks.keep, []

    def kept_or_killed(self: Chunks, *arguments: Any) -> Any:
        if len(read) == chunks:
            raise Killed
        read.append(arguments)
        return keep(self, *arguments)

    return mock.patch.object(Chunks, "keep", kept_or_killed)


def read_chunks(table: Loaded, window: int = 1, asked: InChunks | None = FOUR) -> list[ReadSoFar]:
    """Loads a window in chunks; tells the progress."""
    told: list[ReadSoFar] = []
    context = table.context()
    with mock.patch.object(Loaded, "context", lambda *_, **__: replace(context, advanced=told.append)):
        table.load(window, in_chunks=asked)
    return told


def facts_of(table: Loaded) -> Any:
    """What the record of the first day says that does not depend on how it was read."""
    record = table.context().log.record(day(1))
    assert record is not None
    return record.fingerprint, record.rows_read, record.content, record.first_sequence, record.partitions


@pytest.mark.integration
@pytest.mark.parametrize("analyzed", [True, False])
@pytest.mark.parametrize(("source", "write"), [(BY_TIME, Merge()), (BY_ID, Append())])
def test_a_killed_load_goes_on_with_the_chunks_that_it_has_read(
    spark: SparkSession, tmp_path: Path, shop: Shop, source: Any, write: Write, analyzed: bool
) -> None:
    shop.run(OLDER, *(["ANALYZE items"] if analyzed else []))
    table = make(spark, tmp_path, source=source, changes=NEWEST, write=write)
    with pytest.raises(Killed), killed_after(2):
        read_chunks(table, asked=InChunks(4, 1))
    assert table.log("u", "id") == []
    told = read_chunks(table, asked=None)
    assert [(one.chunks, one.of, one.share == 1) for one in told] == [(3, 4, False), (4, 4, True)]
    assert told[-1].rows == 1000
    assert table.rows() == shop.rows(ITEMS)
    whole = make(spark, tmp_path / "whole", source=source, changes=NEWEST, write=write)
    whole.load(1)
    assert facts_of(table) == facts_of(whole)
    version = table.versions()
    assert not table.replay(table.load(1)).ingested
    assert table.versions()[table.uri] == version[table.uri] + 1

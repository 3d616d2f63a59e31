"""The preview of a load: the load itself, with a scratch that takes everything which it would write.

There is no second planner: the source is detected and read, rows are validated, guarded and staged, and the write
strategy plans and the reconciliation counts, all by the code that loads. See :mod:`incload_assets.change_log.scratch`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.scratch import ScratchLake
from incload_assets.change_log.scratch_log import ScratchLog
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.load.load import IfHeld, LoadReport, load_window
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import NOTHING_KNOWN, Checkpoint
from incload_assets.writes.merge_into import app_id


@dataclass(frozen=True)
class Preview:
    """The preview of the load of one window; its context and scratch are usable until the preview ends."""

    load: LoadContext
    scratch: ScratchLake
    report: LoadReport

    @cached_property
    def partitions(self) -> list[str] | None:
        """The table's partition values or buckets that the window touches; None for all of them."""
        window = self.report.window
        return self.load.read_view((window,), app_id(self.load.table, window)).partitions


@contextmanager
def preview(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    *,
    checkpoint: Checkpoint = NOTHING_KNOWN,
    rewrite_compacted: bool = False,
    if_held: IfHeld = "refuse",
) -> Iterator[Preview]:
    """Previews the load of a window; commits nothing, and removes the rows that it has staged at the block's end.

    The session is for this preview alone; the table need not exist. Further arguments are as for
    :func:`incload_assets.load.load.load_window`, and so are errors: the load would stop with them.
    """
    with scratch_of(lake) as scratch:
        load = LoadContext(spark, table, scratch)
        try:
            report = load_window(
                load, window, checkpoint=checkpoint, rewrite_compacted=rewrite_compacted, if_held=if_held
            )
            yield Preview(load, scratch, report)
        finally:
            ScratchLog(table, scratch).discard()


@contextmanager
def scratch_of(lake: Lake) -> Iterator[ScratchLake]:
    """A scratch for one look at a lake, which leaves nothing behind."""
    with TemporaryDirectory(prefix="incload-preview-") as aside:
        yield ScratchLake(lake.root, aside=Path(aside))

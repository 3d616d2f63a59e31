"""What a source finds, asked for in one line."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from incload_assets.declaration.source import DetectRequest, Position, Source, Survey
from incload_assets.declaration.window import Window
from incload_assets.platform.lake import Lake

NOWHERE = Lake("/nowhere")
"""For sources that need no lake."""


def detected(
    source: Source,
    table_name: str,
    windows: Sequence[Window],
    ingested: Mapping[str, Position],
    *,
    first: datetime | None = None,
    lake: Lake = NOWHERE,
) -> dict[str, Position]:
    """The positions that a source finds."""
    return source.detect(DetectRequest(table_name, windows, ingested, lake, first))


def surveyed(source: Source, table_name: str, windows: Sequence[Window], ingested: Mapping[str, Position]) -> Survey:
    """The positions that a source finds, and what it leaves out."""
    return source.survey(DetectRequest(table_name, windows, ingested, NOWHERE))

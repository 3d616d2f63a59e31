"""Assignment of files to windows.

If the template has time fields, the path determines the window. Otherwise (a flat folder) a file belongs to the window
in which it was first seen, and stays there:

1. A key in an ingested position belongs to that position's window, even if the file was rewritten. If several positions
   have it, the one whose partition key sorts first counts.
2. Any other key belongs to the window that contains the file's modification time in the store. Files older than the
   table's first window belong to that window. Files newer than every window wait until the table has a partition for
   them.

The ingested positions are the only state, so a file gets the same window whichever windows are requested. Note that a
copy which preserves modification times (``cp -p``, ``rsync -t``) counts as first seen at its original's time.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.sources.files.listing import Listed
from incload_assets.sources.files.template import Template


def by_window(
    table_name: str,
    template: Template,
    files: Iterable[Listed],
    windows: Sequence[Window],
    ingested: Mapping[str, Position],
    first: datetime | None,
) -> dict[str, list[Listed]]:
    """The finished files that match, by the partition key of their window if requested; see the module.

    Files older than ``first``, the start of the table's first window, belong to that window; None: to no window.
    """
    finished = (file for file in files if file.is_finished)
    matching = ((file, times) for file in finished if (times := template.match(file.path)) is not None)
    found: dict[str, list[Listed]] = {}
    if template.is_flat:
        owners = _owners(ingested)
        asked = {window.key for window in windows}
        for file, _ in matching:
            key = owners.get(template.name_of(file.path)) or _first_seen(file.modified, windows, first)
            if key in asked:
                found.setdefault(key, []).append(file)
        return found
    known = template.windows_by_time(table_name, windows)
    for file, times in matching:
        if times in known:
            found.setdefault(known[times].key, []).append(file)
    return found


def _owners(ingested: Mapping[str, Position]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for key in sorted(ingested):
        for name, *_ in (*ingested[key].detail.get("files", ()), *ingested[key].detail.get("gone", ())):
            owners.setdefault(name, key)
    return owners


def _first_seen(modified: datetime, windows: Sequence[Window], first: datetime | None) -> str:
    if first is not None and modified < first:
        modified = first
    index = bisect_right(windows, modified, key=lambda window: window.start) - 1
    return windows[index].key if index >= 0 and modified < windows[index].end else ""

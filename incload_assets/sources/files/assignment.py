"""Which window a file belongs to.

With time fields in the template, the path says it. Without any (a flat folder) a file belongs to the window in which it
was first seen, and stays there:

1. A key that an ingested position holds belongs to that position's window, rewritten or not. Should several hold it,
   the one whose partition key sorts first counts.
2. Any other key belongs to the window that contains the time the store last changed it. What is older than the first
   window of the table belongs to that first window. What is newer than every window waits for its window to begin to
   exist, as the table has no partition for it yet.

The ingested positions are the only memory, so the answer is the same for any set of windows that is asked about. Mind
that a copy which preserves modification times (``cp -p``, ``rsync -t``) is first seen at its original's time.
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
    """The finished files that match the template, by the partition key of the window they belong to.

    Args:
        table_name: For messages.
        template: What to match.
        files: As listed.
        windows: The windows asked about, oldest first; files of others are left out.
        ingested: Positions of earlier loads by partition key.
        first: Start of the table's first window; None where files older than it are not to be claimed.
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

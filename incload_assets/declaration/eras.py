"""Eras: the former partitions definitions of a table, each with the instant until which it counted.

The windows of an era are *closed*: their rows stay in log and table, they keep their checkpoints, and no load asks for
them any more. The windows of all eras and of the present definition follow each other without gaps or overlaps, with
different keys, because keys name fences and partitions of the log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise, takewhile

import dagster as dg

from incload_assets.contract.adaptation import UNTIL
from incload_assets.declaration.source import Source
from incload_assets.declaration.window import Window, window_between
from incload_assets.declaration.window_rules import sampled_windows, time_windows
from incload_assets.platform.dagster_private import time_windows_of
from incload_assets.platform.errors import DeclarationError


@dataclass(frozen=True)
class Era:
    """A former partitions definition of a table, and the instant until which it counted.

    Args:
        partitions_def: The former definition as it was declared. Only its windows that end by ``until`` count.
        until: The instant from which on the next definition counts, ISO 8601 with an offset. A window of this
            definition ends then, and the first window of the next one starts then.
        source: The source that the table had then, if it was declared otherwise, for example with another path. The
            check ``gaps`` asks it for data that came too late for a window of this definition.
        read_older: Whether the first window of the next definition takes all older rows of a database once more, so
            that rows without a time, and rows that were dated back, are found. By default no row of a closed window is
            read again.

    Example:
        >>> Era(dg.DailyPartitionsDefinition("2026-01-01"), until="2026-03-01T00:00Z").end
        datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """

    partitions_def: dg.PartitionsDefinition
    until: str
    source: Source | None = None
    read_older: bool = False

    @property
    def end(self) -> datetime:
        """``until``, aware, UTC."""
        return datetime.fromisoformat(self.until).astimezone(UTC)

    @cached_property
    def windows(self) -> list[Window]:
        """The windows that count, oldest first."""
        definition = self.partitions_def
        assert isinstance(definition, dg.TimeWindowPartitionsDefinition)  # check_eras has seen it
        found = (window_between(definition, bounds, key) for key, bounds in time_windows_of(definition))
        return [*takewhile(lambda window: window.end <= self.end, found)]

    def __str__(self) -> str:
        return f"{definition_text(self.partitions_def)}{UNTIL}{self.end.isoformat()}"


def definition_text(partitions_def: dg.PartitionsDefinition) -> str:
    """The text that names the windows of a definition: schedule, time zone and format of the keys."""
    assert isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)
    return f"{partitions_def.cron_schedule} {partitions_def.timezone or 'UTC'} {partitions_def.fmt}"


def windows_text(eras: Sequence[Era], partitions_def: dg.PartitionsDefinition) -> str:
    """The text that names all windows of a table: the definitions of its eras and the present one, oldest first."""
    return "; ".join([*map(str, eras), definition_text(partitions_def)])


def check_eras(
    table_name: str, eras: Sequence[Era], present: dg.TimeWindowPartitionsDefinition, source: Source, *, whole: bool
) -> None:
    """Refuses former definitions (oldest first) with gaps or overlaps, instants that bound no window, or equal keys.

    They are also refused for tables for which they do not matter; ``whole``: each window holds the whole table.
    """
    if not eras:
        return
    if whole:
        raise DeclarationError(
            f"{table_name}: former_partitions is given",
            rule="each window of this table holds all of it, so that its partitions can change at any time",
            remedy="drop former_partitions",
        )
    if not all(isinstance(era, Era) for era in eras):
        raise DeclarationError(
            f"{table_name}: former_partitions is {eras!r}",
            rule="it is a list of former definitions, oldest first",
            remedy="write former_partitions=[Era(former_definition, until='2026-03-01T00:00Z')]",
        )
    following = [*(era.partitions_def for era in eras[1:]), present]
    for number, (era, after) in enumerate(zip(eras, following, strict=True)):
        place = f"{table_name}: former_partitions[{number}]"
        _check_era(place, era, time_windows(table_name, after))
        _check_source(table_name, place, era, source)
    _check_keys(table_name, eras, present)


def _check_era(place: str, era: Era, after: dg.TimeWindowPartitionsDefinition) -> None:
    definition = time_windows(place, era.partitions_def)
    sampled_windows(place, definition)
    try:
        aware = datetime.fromisoformat(era.until).tzinfo is not None
    except (TypeError, ValueError):
        aware = False
    if not aware:
        raise DeclarationError(
            f"{place}: until is {era.until!r}",
            rule="it is an instant, in ISO 8601 with an offset",
            remedy="write until='2026-03-01T00:00Z'",
        )
    last = definition.get_prev_partition_window(era.end.astimezone(definition.start.tzinfo), respect_bounds=False)
    # compared in UTC: in an hour that a clock repeats, Python takes equal instants of two zones for unequal (PEP 495)
    if last is None or last.end.astimezone(UTC) != era.end or last.start < definition.start:
        nearest = f"; the nearest one before is {_shown(last.end)}" if last and last.end > definition.start else ""
        raise DeclarationError(
            f"{place}: until is {_shown(era.end)}, and no window of {definition_text(definition)} that starts at "
            f"{_shown(definition.start)} or later ends then",
            rule=f"a former definition counts until the end of one of its windows{nearest}",
            remedy="write the end of a window that starts a window of the next definition, too; where there is none, "
            "put an era of hourly partitions between them",
        )
    if definition.end is not None and definition.end < era.end:
        raise DeclarationError(
            f"{place}: until is {_shown(era.end)}, and its partitions_def ends at {_shown(definition.end)}",
            rule="there is no gap between the windows of two definitions",
            remedy="write until as the end of the last window that there was",
        )
    first = after.get_next_partition_window(after.start, respect_bounds=False)
    if first is None or first.start.astimezone(UTC) != era.end:
        starts = _shown(first.start) if first else "no window"
        kind = "gap" if first is None or first.start > era.end else "overlap"
        raise DeclarationError(
            f"{place}: until is {_shown(era.end)}, and the first window of the next definition, "
            f"{definition_text(after)}, starts at {starts}: there is {'a' if kind == 'gap' else 'an'} {kind}",
            rule="each definition's first window starts where the previous definition ends",
            remedy=f"start the next definition at {_shown(era.end)}, in its own time zone; if no window of it starts "
            "then, write another until, or put an era of hourly partitions between them",
        )


def _check_source(table_name: str, place: str, era: Era, source: Source) -> None:
    """Refuses an era whose windows its source cannot be asked for, so that late data would go unnoticed."""
    of_era = era.source or source
    try:
        of_era.validate(table_name)
        of_era.validate_windows(table_name, era.windows[:3])
    except DeclarationError as error:
        if era.source is not None:
            raise
        raise DeclarationError(
            f"{place}: the present source cannot be asked for windows of this definition: {error.problem}",
            rule="data that comes late for closed windows is reported, never lost in silence",
            remedy="give the former source, Era(…, source=Files('{landing}/orders/{window:%Y-%m-%d}/*.json'))",
        ) from error


def _check_keys(table_name: str, eras: Sequence[Era], present: dg.TimeWindowPartitionsDefinition) -> None:
    """Refuses a key that names two windows: fences and partitions of the log are named by keys."""
    definitions = [*(era.partitions_def for era in eras), present]
    known: set[str] = set()
    for era, (_, after) in zip(eras, pairwise(definitions), strict=True):
        known |= {window.key for window in era.windows}
        assert isinstance(after, dg.TimeWindowPartitionsDefinition)
        if twice := next(_shared(known, after), None):
            raise DeclarationError(
                f"{table_name}: {twice!r} is the key of a window of a former definition, and of a window of "
                f"{definition_text(after)}",
                rule="a key names one window of a table for ever, as its rows in the log are found by it",
                remedy="give the later definition keys of another format, for example fmt='%Y-%m-%dT%H:%M'",
            )


def _shared(known: set[str], after: dg.TimeWindowPartitionsDefinition) -> Iterator[str]:
    """The keys that a later definition gives to windows of its own, in any order."""
    for key in known:
        try:
            start = datetime.strptime(key, after.fmt).replace(tzinfo=after.start.tzinfo)
        except ValueError:
            continue
        if start >= after.start:
            yield key


def _shown(instant: datetime) -> str:
    return instant.isoformat(timespec="minutes")

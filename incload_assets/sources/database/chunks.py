"""Chunks of a range of a database table: ranges of the window column with about as many rows each."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from incload_assets.declaration.source import Position
from incload_assets.platform.dialects.dialect import Column
from incload_assets.platform.wording import several
from incload_assets.sources.database.ranges import Found, Range, found_in
from incload_assets.sources.database.relation import Relation


def chunks_of(
    connection: Any,
    relation: Relation,
    column: Column,
    position: Position,
    number: int,
    known: Sequence[Position],
    database: Sequence[object] = (),
) -> list[Position]:
    """Positions of chunks of a window: ranges with about as many rows each.

    Ranges of ``known`` chunks stay as they are; what is between them is cut where the database's statistics say that a
    further part of the rows begins, or else evenly between the least and the greatest value. Rows of one value, or
    without a value, are never divided.

    A window that is complete only loses rows, to later windows, so that a chunk of it need not be read again: it is
    identified by its range, the ``database``'s address, and the table's number. The chunks of another window are
    identified by count and hash of their rows, from one query.
    """
    detail = position.detail
    whole, least, most = Range(detail["low"], detail["high"]), detail["least"], detail["most"]
    if not detail["rows"]:
        return []
    cuts = _evenly(relation.dialect.spread(connection, relation.catalog, column), number)
    if not cuts and least is not None and most is not None:
        cuts = [least + (most - least) * part // number for part in range(1, number)]
    kept = [Range(one.detail["low"], one.detail["high"]) for one in known]
    ranges = {str(number): one for number, one in enumerate(_ranges(whole, kept, cuts))}
    if detail["state"] == "closed":
        share = Found(detail["rows"] // len(ranges) + 1, size=position.size // len(ranges), least=least, most=most)
        found = {key: _within(one, share) for key, one in ranges.items()}
    else:
        found = found_in(connection, relation, column, ranges)
    place = [*database, relation.catalog.oid]
    return [_position(ranges[key], one, detail["state"], place) for key, one in found.items() if one.rows]


def _within(part: Range, found: Found) -> Found:
    """The same with bounds within a range, between which it is cut for several readers."""
    least = found.least if found.least is None or part.low is None else max(found.least, part.low)
    return replace(found, least=least, most=None if found.most is None else min(found.most, part.high - 1))


def _position(part: Range, found: Found, state: str, place: Sequence[object]) -> Position:
    content = json.dumps([part.low, part.high, state, *(place if state == "closed" else [found.rows, found.hash])])
    fingerprint = hashlib.sha256(content.encode()).hexdigest()[:16]
    values = {"low": part.low, "high": part.high, "rows": found.rows, "least": found.least, "most": found.most}
    return Position(fingerprint, values, f"about {several(found.rows, 'row')}", found.size)


def _ranges(whole: Range, kept: Sequence[Range], cuts: Sequence[int]) -> list[Range]:
    """Adjacent ranges that together are the whole: the kept ones, and what is between them in pieces."""
    ranges: list[Range] = []
    low: int | None = whole.low
    for one in [*sorted(kept, key=lambda one: one.high), Range(whole.high, whole.high)]:
        if one.high > whole.high or (low is not None and (one.low is None or one.low < low)):
            continue  # it is not within the window, or overlaps the one before
        end = one.low
        if end is not None and (low is None or low < end):
            ends = [*sorted({cut for cut in cuts if (low is None or cut > low) and cut < end}), end]
            ranges += [Range(begin, until) for begin, until in zip([low, *ends], ends, strict=False)]
        if not one.empty:
            ranges.append(one)
        low = one.high
    return ranges


def _evenly(bounds: Sequence[int], number: int) -> list[int]:
    return [bounds[len(bounds) * part // number] for part in range(1, number)] if len(bounds) >= number else []

"""Chunks of a range of a database table: ranges of the window column with about as many rows each."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import psycopg

from incload_assets.declaration.source import Position
from incload_assets.platform.wording import several
from incload_assets.sources.postgres.ranges import Range, found_in, value_sql
from incload_assets.sources.postgres.relation import Column, Relation, quoted


def chunks_of(
    connection: psycopg.Connection[Any],
    relation: Relation,
    column: Column,
    position: Position,
    number: int,
    known: Sequence[Position],
) -> list[Position]:
    """Positions of chunks of a window, each with count and hash of its rows, from one query.

    Ranges of ``known`` chunks stay as they are; what is between them is cut where the database's statistics say that a
    further part of the rows begins, or else evenly between the least and the greatest value. Rows of one value, or
    without a value, are never divided. A known chunk of a window that was complete then is not counted again: since
    then it can only have lost rows to later windows.
    """
    detail = position.detail
    whole, least, most = Range(detail["low"], detail["high"]), detail["least"], detail["most"]
    if not detail["rows"]:
        return []
    cuts = _evenly(_histogram(connection, relation, column), number)
    if not cuts and least is not None and most is not None:
        cuts = [least + (most - least) * part // number for part in range(1, number)]
    kept = [Range(one.detail["low"], one.detail["high"]) for one in known]
    ranges = {str(number): one for number, one in enumerate(_ranges(whole, kept, cuts))}
    complete = {Range(one.detail["low"], one.detail["high"]): one for one in known if one.detail["state"] == "closed"}
    chunks = [complete[one] for one in ranges.values() if one in complete]
    unknown = {key: one for key, one in ranges.items() if one not in complete}
    for key, one in found_in(connection, relation, column, unknown).items():
        if one.rows:
            low, high, state = ranges[key].low, ranges[key].high, detail["state"]
            content = json.dumps([low, high, one.rows, one.hash, state])
            values = {"low": low, "high": high, "rows": one.rows, "least": one.least, "most": one.most, "state": state}
            fingerprint = hashlib.sha256(content.encode()).hexdigest()[:16]
            chunks.append(Position(fingerprint, values, f"{several(one.rows, 'row')} of {relation.place}", one.size))
    return chunks


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


def _histogram(connection: psycopg.Connection[Any], relation: Relation, column: Column) -> list[int]:
    """Values between which there are about as many rows each, from the statistics; empty if there are none."""
    name = quoted(column.name)
    found = connection.execute(
        f"SELECT {value_sql(column)} FROM (SELECT unnest(s.histogram_bounds::text::{column.type}[]) AS {name} "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_stats s ON s.schemaname = n.nspname "
        "AND s.tablename = c.relname WHERE c.oid = %s AND s.attname = %s AND NOT s.inherited) AS bounds".encode(),
        [relation.oid, column.name],
    )
    return sorted(value for (value,) in found if value is not None)

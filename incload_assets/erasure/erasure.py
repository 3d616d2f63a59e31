"""The result of an erasure, and the person that it is about."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from incload_assets.contract.protection import Tokens
from incload_assets.declaration.table import Table
from incload_assets.erasure.erase_rows import ErasedRows
from incload_assets.erasure.old_versions import Removed
from incload_assets.erasure.person_search import Traces
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.wording import several, size
from incload_assets.protection.erasures import fingerprint
from incload_assets.protection.protect import token
from incload_assets.sources.upstream.tables import Tables

SHOWN = 20
"""Most files that are named, of those with a trace and of those that could not be read."""


@dataclass(frozen=True)
class Erasure:
    """The result of an erasure, or of the look at what it would do.

    Args:
        tables: What each table had of the person, by its name.
        traces: The files with a trace of the person: at the end, or as they are.
        removed: The old versions that were removed.
        landings: Former landings without the person now, and those that no window can be returned to any longer.
        decisions: Decisions of people about rejected rows that were removed.
        keys: Keys of the person that were deleted, for encrypted values.
        unreached: What may hold the person and cannot be reached from here.
    """

    kind: str
    tables: Mapping[str, ErasedRows]
    traces: Traces
    removed: Removed = field(default_factory=Removed)
    landings: tuple[int, int] = (0, 0)
    decisions: int = 0
    unreached: Sequence[str] = ()
    keys: int = 0

    @property
    def is_proven(self) -> bool:
        """True if every file was read, and none has a trace."""
        return not (self.traces.found or self.traces.unreadable)

    def lines(self, *, planned: bool = False) -> Iterator[str]:
        """The result for people; ``planned``: nothing was done yet."""
        for name, rows in self.tables.items():
            yield (
                f"{name}: {several(rows.rows, 'row')} of the table, {several(rows.changes, 'change')} in "
                f"{several(rows.windows, 'window')} of its log, {rows.rejected} of them rejected"
            )
        if not any(rows.rows or rows.changes for rows in self.tables.values()):
            yield f"no row of such a {self.kind} was found: the identifier has to be spelled as in the tables"
        if not planned:
            rewritten, forgotten = self.landings
            yield (
                f"old versions: removed {several(self.removed.files, 'data file')} "
                f"({size(self.removed.size)}) and {several(self.removed.commits, 'file')} of Delta's logs; "
                f"former landings: {rewritten} written again, {forgotten} forgotten; "
                f"decisions removed: {self.decisions}; keys deleted: {self.keys}"
            )
        found = self.traces
        yield f"read {several(found.files, 'file')} of the lake ({size(found.size)}): {len(found.found)} with a trace"
        if not planned:
            yield from (f"  trace: {path}" for path in found.found[:SHOWN])
        yield from (f"  could not be read: {path}" for path in found.unreadable[:SHOWN])
        yield from (f"  cannot be reached from here: {what}" for what in self.unreached)

    def details(self) -> dict[str, str]:
        """The result for the audit."""
        return {
            "kind": self.kind,
            "tables": json.dumps({name: rows.changes for name, rows in self.tables.items()}),
            "files": str(self.traces.files),
            "bytes": str(self.traces.size),
            "keys": str(self.keys),
            "hits": str(len(self.traces.found)),
            "unreadable": str(len(self.traces.unreadable)),
            "removed_files": str(self.removed.files),
            "unreached": json.dumps([*self.unreached]),
        }


def fingerprints_of(tables: Iterable[Table], kind: str, value: str, *, create: bool = False) -> frozenset[str]:
    """The fingerprints of a person: of the identifier, and of its tokens where tables keep tokens.

    ``value`` is the identifier as the sources have it; with ``create`` a key is made on this machine if there is none.
    Raises DeclarationError if no table has persons of this kind, SourceUnreadable if a key is missing.
    """
    values = {value}
    for table in tables_of(tables, kind):
        assert table.subject is not None
        if isinstance(protection := table.contract.protections.get(table.subject.by), Tokens):
            values.add(token(protection, value))
    return frozenset(fingerprint(one, create=create) for one in sorted(values))


def tables_of(tables: Iterable[Table], kind: str) -> list[Table]:
    """The tables with persons of a kind; raises DeclarationError if there are none."""
    tables = list(tables)
    if found := [table for table in tables if table.subject is not None and table.subject.kind == kind]:
        return found
    kinds = sorted({table.subject.kind for table in tables if table.subject is not None})
    raise DeclarationError(
        f"no table has persons of the kind {kind!r}; there are: {', '.join(kinds) or 'none'}",
        rule="a person is found by the column that a table names as its subject",
        remedy=f'declare it at each table with such rows: subject=Subject("{kind}", by="…")',
    )


def derived_without_subject(tables: Sequence[Table], found: Sequence[Table]) -> Iterator[tuple[Table, list[str]]]:
    """Tables derived, directly or not, from the found ones and not among them, each with the names of its upstreams."""
    reached = {tuple(table.key.path): table.name for table in found}
    left = [table for table in tables if table not in found]
    while True:
        due = {table.name: above for table in left if (above := _above(table, reached))}
        if not due:
            return
        for table in [table for table in left if table.name in due]:
            yield table, due[table.name]
            reached[tuple(table.key.path)] = table.name
        left = [table for table in left if table.name not in due]


def _above(table: Table, reached: Mapping[tuple[str, ...], str]) -> list[str]:
    if not isinstance(table.source, Tables):
        return []
    return sorted(reached[each.path] for each in table.source.of if each.path in reached)

"""The history of a table's contract: what Delta still knows of it, what loads recorded, and versions of the code."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from incload_assets.change_log.rewrite import REWRITES
from incload_assets.contract.adaptation import Difference, Stored, stored_differences
from incload_assets.declaration.table import Table
from incload_assets.delta.tables import stored_of
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.errors import LakeUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import chain_of, chosen

_ROWS_ALONE = {"MERGE", "WRITE", "DELETE", "UPDATE", "OPTIMIZE", "VACUUM START", "VACUUM END"}
"""Operations of Delta that change rows and files, and by which loads change nothing else but in rewrites."""
_MAY_CHANGE_COLUMNS = ("canOverwriteSchema", "canMergeSchema")
"""Parameters of such an operation if it was allowed to change columns."""

_AUDITED = ("table", "log", "table_widened", "log_widened")
"""Details of an entry of the audit: columns that a table or its log got, or whose types were widened."""


@dataclass(frozen=True, kw_only=True)
class ContractEvent:
    """A change of a table's contract, or of the code that loads it, at an aware instant.

    ``place`` is where it is recorded: ``table`` and ``log`` are Delta's history (with its ``version``), ``audit``,
    ``loads``. ``did`` is Delta's operation, or what was recorded; ``what`` are the columns, properties or code
    versions.
    """

    at: datetime
    place: str
    version: int | None = None
    who: str = ""
    did: str
    what: str = ""
    run_id: str = ""


def contract_history(table: Table, lake: Lake) -> list[ContractEvent]:
    """All known changes of a table's contract, oldest first.

    Delta forgets commits after its retention, which is two days for a log. The audit and the table ``_loads`` stay.
    """
    path = table.key.path
    events = [
        *_of_delta(lake, lake.table_uri(path), "table"),
        *_of_delta(lake, lake.log_uri(path), "log"),
        *_of_audit(lake, table.name),
        *_of_loads(lake, table.name),
    ]
    return sorted(events, key=lambda event: (event.at, event.place != "table"))


def _of_delta(lake: Lake, uri: str, place: str) -> Iterator[ContractEvent]:
    delta = lake.delta(uri)
    for commit in delta.history() if delta is not None else ():
        operation = str(commit.get("operation", ""))
        if (of_rows := operation in _ROWS_ALONE) and not _may_change_columns(commit):
            continue
        version = int(commit["version"])
        after, before = _at(lake, uri, version), _at(lake, uri, version - 1) if version else None
        what = "" if after is None or before is None else _changes(before, after)
        if of_rows and before is not None and not what:
            continue
        yield ContractEvent(
            at=datetime.fromtimestamp(commit.get("timestamp", 0) / 1000, UTC),
            place=place,
            version=version,
            who=str(commit.get("userName") or commit.get("engineInfo", "")),
            did=operation,
            what=what,
        )


def _may_change_columns(commit: Mapping[str, Any]) -> bool:
    parameters = commit.get("operationParameters") or {}
    allowed = any(str(parameters.get(name)).lower() == "true" for name in _MAY_CHANGE_COLUMNS)
    return allowed or str(commit.get("userMetadata", "")).startswith(REWRITES)


def _at(lake: Lake, uri: str, version: int) -> Stored | None:
    """The stored contract at a version; None if that version cannot be read any more."""
    try:
        delta = lake.delta(uri, version)
    except LakeUnreadable:
        return None
    return None if delta is None else stored_of(delta)


def _changes(before: Stored, after: Stored) -> str:
    removed = [f"property {name} removed" for name in before.properties if name not in after.properties]
    return "; ".join([*map(_told, stored_differences(before, after)), *removed])


def _told(found: Difference) -> str:
    values = " → ".join(value for value in (found.was, found.now) if value is not None)
    return f"{found.kind.name}: {' '.join(filter(None, [found.column, values]))}"


def _of_audit(lake: Lake, name: str) -> Iterator[ContractEvent]:
    for entry in chosen(chain_of(lake), name):
        if entry.action == "contract" and entry.at is not None:
            told = {name: entry.details[name] for name in _AUDITED if entry.details.get(name)}
            done = {"types widened" if name.endswith("_widened") else "columns added": None for name in told}
            columns = [f"{name.replace('_', ' ')}: {names}" for name, names in told.items()]
            what = "; ".join([*columns, f"code version {entry.details.get('code_version', 'unknown')}"])
            yield ContractEvent(
                at=entry.at,
                place="audit",
                who=f"{entry.actor} on {entry.host}",
                did=", ".join(done),
                what=what,
                run_id=entry.run_id,
            )


def _of_loads(lake: Lake, name: str) -> Iterator[ContractEvent]:
    """The first load of each code version, and of an earlier one that comes back."""
    last = ""
    for row in LoadsTable(lake).rows(tables=[name]):
        if row.outcome != "loaded" or row.code_version in ("", last):
            continue
        yield ContractEvent(
            at=row.ended_at,
            place="loads",
            who=row.asked_by or row.trigger,
            did="first load by other code" if last else "first load",
            what=f"code version {f'{last} → ' if last else ''}{row.code_version}, window {row.window}",
            run_id=row.run_id,
        )
        last = row.code_version

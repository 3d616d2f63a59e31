"""The lake that the checkpoints of a table belong to: its identity and root, remembered by the Dagster instance.

Checkpoints would say of a copied or swapped lake, or of a missing one (a disk that is not mounted), that it has the
rows, and loads of a copy would write to it as if it were the original. So the first load of a table remembers the lake,
and a load into another one is refused until a person has adopted it.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.platform.errors import LakeMistaken
from incload_assets.platform.lake import BACK, Lake
from incload_assets.progress.instance_values import keep_values, values_of

_REMEMBERED = "incload/lake of "


@dataclass(frozen=True)
class KnownLake:
    """The identity and the root of a lake, as an instance remembers them."""

    identity: str
    root: str


def known_lake(instance: dg.DagsterInstance, table: Table) -> KnownLake | None:
    """The lake that an instance remembers for a table; None if no load of the table has begun there yet."""
    name = _name(table)
    found = values_of(instance, [name]).get(name)
    return None if found is None else KnownLake(**json.loads(found))


def mistaken(instance: dg.DagsterInstance, table: Table, lake: Lake) -> str | None:
    """Why the lake is not the one that the instance remembers for a table; None if it is, or none is remembered."""
    if (error := lake.not_own()) is not None:
        return error.problem
    known = known_lake(instance, table)
    return None if known is None else _difference(known, lake.identity(), lake.root)


def expect_known_lake(instance: dg.DagsterInstance, table: Table, lake: Lake) -> None:
    """Remembers the lake with the first load of a table, and raises LakeMistaken for a load into another one.

    So it does for a lake of another environment.
    """
    lake.expect_own(table.name)
    known = known_lake(instance, table)
    if known is None:
        identity = lake.identity(create=True)
        assert identity is not None
        _remember(instance, [table], KnownLake(identity, lake.root))
    elif (why := _difference(known, lake.identity(), lake.root)) is not None:
        raise LakeMistaken(
            f"{table.name}: {why}",
            rule="the checkpoints in Dagster are of one lake",
            remedy=f"set {BACK}",
        )


def adopt_lake(instance: dg.DagsterInstance, tables: Iterable[Table], lake: Lake) -> dict[str, KnownLake | None]:
    """Remembers the lake, and makes it this environment's; returns what was remembered of tables, if that changes."""
    is_another_ones = lake.not_own() is not None
    lake.take_over()
    identity = lake.identity()
    assert identity is not None
    now = KnownLake(identity, lake.root)
    changed = [(table, known) for table in tables if (known := known_lake(instance, table)) != now or is_another_ones]
    _remember(instance, [table for table, _ in changed], now)
    return {table.name: known for table, known in changed}


def _difference(known: KnownLake, identity: str | None, root: str) -> str | None:
    if identity is None:
        return f"the lake {root} has no identity, but Dagster's checkpoints are of lake {known.identity[:8]}"
    if identity != known.identity:
        return f"the lake {root} is {identity[:8]}, but Dagster's checkpoints are of lake {known.identity[:8]}"
    if root != known.root:
        return f"the lake {identity[:8]} is at {root}, but Dagster's checkpoints are of it at {known.root}"
    return None


def _remember(instance: dg.DagsterInstance, tables: Iterable[Table], lake: KnownLake) -> None:
    keep_values(instance, {_name(table): json.dumps(asdict(lake)) for table in tables})


def _name(table: Table) -> str:
    return f"{_REMEMBERED}{table.key.to_string()}"

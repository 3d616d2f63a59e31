"""Values that an instance of Dagster keeps by name, beside its history, and that every process of it reads."""

from collections.abc import Iterable, Mapping

import dagster as dg

_AT_ONCE = 500


def values_of(instance: dg.DagsterInstance, names: Iterable[str]) -> dict[str, str]:
    """The values of some names; names without one are left out."""
    asked, found = sorted(names), dict[str, str]()
    for start in range(0, len(asked), _AT_ONCE):
        found |= instance.daemon_cursor_storage.get_cursor_values({*asked[start : start + _AT_ONCE]})
    return found


def keep_values(instance: dg.DagsterInstance, values: Mapping[str, str]) -> None:
    """Keeps values, one by one: of several at once Dagster loses the new ones, if another one had a value before."""
    for name, value in values.items():
        instance.daemon_cursor_storage.set_cursor_values({name: value})

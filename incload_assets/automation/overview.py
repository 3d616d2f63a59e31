"""The overview of all tables as their sensor sees them, without a look at any of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from incload_assets.automation.news import News
from incload_assets.progress.observed import RECENT, observed_by_name, pass_in, sensors, watched_tables
from incload_assets.progress.status import Overview


@dataclass(frozen=True)
class Sight:
    """The tables as their sensor sees them.

    Args:
        at: When it last looked, aware.
        rows: The rows of the tables about which it knows all that has happened.
        others: The names of the others: Dagster has recorded something about them since, or the last look at them was
            more than :data:`~incload_assets.progress.observed.RECENT` ago.
    """

    at: datetime
    rows: Sequence[Overview]
    others: Sequence[str]


def sight_of(instance: dg.DagsterInstance, folder: str, at: datetime) -> Sight | None:
    """The tables of a project's folder as their sensor sees them; None if it does not look, or if there are several."""
    found = []
    for location, state, tick in sensors(instance):
        last = pass_in(tick.cursor)
        if last is None or not state.is_running or at - datetime.fromisoformat(last.at) > RECENT:
            continue
        if names := watched_tables(instance, location, folder):
            found.append((last, names))
    if len(found) != 1:
        return None
    [(last, names)] = found
    news = News(last.marks).since_last_time(instance, at)
    if news is None:
        return None
    looked, since = datetime.fromisoformat(last.at), {key.to_user_string() for key in news}
    assets = {key.to_user_string() for key in instance.all_asset_keys()}
    known, unsure = observed_by_name(instance, names), {*since, *last.behind, *last.unsure}
    unsure |= {name for name, seen in known.items() if seen.last_load and name not in assets}  # they were wiped
    rows = [known[name].overview(name, looked) for name in names if name in known and name not in unsure]
    return Sight(looked, rows, [name for name in names if name not in known or name in unsure])

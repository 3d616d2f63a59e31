"""An erasure alone with its tables: they are paused for loads, and claimed against the erasures of other persons.

Two erasures of one table would each remove files that the other one is reading or has written. So each has a claim on
its tables, see :mod:`incload_assets.progress.claims`, whose holder is a digest of the person's fingerprints. An erasure
that has died is thus taken over when it is repeated, and only then.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from time import monotonic, sleep

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import several
from incload_assets.progress.checkpoint import loading_now
from incload_assets.progress.claims import claim, claimed_by_others, end_claim
from incload_assets.progress.pause import Pause

_POLL = 2.0
"""Seconds between two looks at runs under way."""
_WHILE = timedelta(hours=12)
"""The longest time that tables are paused for."""


def holder_of(kind: str, fingerprints: Iterable[str]) -> str:
    """The holder of the claims of a person's erasure."""
    return f"erasure {hashlib.sha256(' '.join([kind, *sorted(fingerprints)]).encode()).hexdigest()[:16]}"


@contextmanager
def alone(
    lake: Lake,
    tables: Sequence[Table],
    kind: str,
    holder: str,
    *,
    because: str,
    actor: str,
    run_id: str,
) -> Iterator[None]:
    """Claims the tables within the block, so that they are paused and no other person is erased from them.

    Empty ``actor``: the operating system's user; empty ``run_id``: no Dagster run. Raises IncrementalLoadError, with
    nothing changed, if another person is being erased from a table.
    """
    why = f"a {kind} is erased" + (f": {because}" if because else "")
    with ExitStack() as claims:
        for table in tables:
            made = claim(lake, table.name, now() + _WHILE, why, holder=holder, actor=actor, run_id=run_id)
            if made is None:
                raise _busy(table, kind, claimed_by_others(lake, table.name, holder))
            claims.callback(end_claim, lake, made, "the erasure has ended", actor=actor, run_id=run_id)
        yield


def wait_for_runs(
    instance: dg.DagsterInstance,
    tables: Iterable[Table],
    *,
    but: str,
    patience: timedelta,
    info: Callable[[str], None],
) -> None:
    """Waits until no run except ``but`` loads the paused tables; after ``patience`` raises IncrementalLoadError."""
    until = monotonic() + patience.total_seconds()
    for table in tables:
        while runs := [run for run in loading_now(instance, table.key) if run != but]:
            if monotonic() > until:
                raise IncrementalLoadError(
                    f"{table.name}: runs that may load it are under way: {', '.join(sorted(runs))}",
                    rule=f"no run loads a table while a person is erased from it; waited for {patience}",
                    remedy="wait until they have ended, or cancel them, and repeat the erasure",
                )
            info(f"{table.name}: waits for {several(len(runs), 'run')} under way")
            sleep(min(_POLL, patience.total_seconds()))


def _busy(table: Table, kind: str, other: Pause | None) -> IncrementalLoadError:
    return IncrementalLoadError(
        f"{table.name}: another {kind} is being erased from it" + (f"; it is {other}" if other else ""),
        rule="persons are erased from a table one after another, as each erasure removes files",
        remedy="try again when the other erasure has ended; if it has died, repeat it first, or end its pause if you "
        f"cannot: incload resume {table.name}",
    )

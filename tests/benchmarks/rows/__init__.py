"""The comparisons, by the name that they are asked for."""

from collections.abc import Callable, Iterator

from tests.benchmarks.bench import Bench
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.again import again, undo
from tests.benchmarks.rows.big import big
from tests.benchmarks.rows.bootstrap import bootstrap
from tests.benchmarks.rows.by_key import history, state
from tests.benchmarks.rows.first import cold, days, first, reconcile
from tests.benchmarks.rows.groups import groups
from tests.benchmarks.rows.memory import memory
from tests.benchmarks.rows.metrics import metrics, watched
from tests.benchmarks.rows.other_tools import by_dlt, full_reload, without_spark
from tests.benchmarks.rows.promises import minutes, promises
from tests.benchmarks.rows.protect import protect, rotate
from tests.benchmarks.rows.quiet import replay, sensor, tables
from tests.benchmarks.rows.rebuild import rebuild
from tests.benchmarks.rows.runs import backfill, run
from tests.benchmarks.rows.small import growth, plain, warm
from tests.benchmarks.rows.soak import soak
from tests.benchmarks.rows.thousand import hours, in_postgres, rest, thousand
from tests.benchmarks.rows.tuning import tuning, versions

Row = Callable[[Bench], Iterator[Comparison]]

ROWS: dict[str, Row] = {
    "warm": warm,
    "plain": plain,
    "big": big,
    "again": again,
    "undo": undo,
    "groups": groups,
    "first": first,
    "bootstrap": bootstrap,
    "reconcile": reconcile,
    "days": days,
    "cold": cold,
    "growth": growth,
    "protect": protect,
    "rotate": rotate,
    "replay": replay,
    "sensor": sensor,
    "tables": tables,
    "metrics": metrics,
    "watched": watched,
    "thousand": thousand,
    "hours": hours,
    "postgres": in_postgres,
    "rest": rest,
    "rebuild": rebuild,
    "state": state,
    "history": history,
    "versions": versions,
    "backfill": backfill,
    "run": run,
    "delta-rs": without_spark,
    "dlt": by_dlt,
    "reload": full_reload,
    "memory": memory,
    "soak": soak,
    "promises": promises,
    "minutes": minutes,
    "tuning": tuning,
}
"""Every comparison that there is, in the order in which they run."""

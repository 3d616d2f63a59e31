"""The value of a panel's query over samples, as Prometheus would compute it from the same series."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache

from incload_assets.monitoring.facts import Facts
from incload_assets.monitoring.metrics import Metric, Sample, samples
from incload_assets.monitoring.panels import Query

Reading = Mapping[str, Sequence[Sample]]
"""The samples of one instant by the metric's name; see :class:`Read`."""
Values = Mapping[tuple[str, ...], float]
"""Numbers by the values of the query's labels, in the order of ``by``; a label that a series lacks is empty."""
Line = Sequence[tuple[datetime, float]]
"""Values over time, oldest first."""


class Read(Mapping[str, Sequence[Sample]]):
    """The samples of facts, of each metric when it is asked for: no page shows all of them.

    Args:
        facts: Takes the facts, when the first metric is asked for.
        metrics: The metrics that are known at the instant of the facts.
    """

    def __init__(self, facts: Callable[[], Facts], metrics: Iterable[Metric]) -> None:
        self._facts, self._metrics = cache(facts), {metric.name: metric for metric in metrics}
        self._found: dict[str, Sequence[Sample]] = {}

    def __getitem__(self, name: str) -> Sequence[Sample]:
        if name not in self._found:
            self._found[name] = list(samples(self._facts(), [self._metrics[name]]))
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)


def evaluate(query: Query, now: Reading, before: Reading | None = None) -> Values:
    """The values of a query at an instant.

    A query with an ``increase`` needs the samples at its start, ``before``; without them it has no values. A series
    that only ``now`` has began with 0.

    Example:
        >>> taken = {"m": [Sample("m", {"table": "a", "kind": "x"}, 1), Sample("m", {"table": "a", "kind": "y"}, 2)]}
        >>> evaluate(Query(metric="m"), taken)
        {('a',): 3.0}
    """
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for sample, value in _series(query, now, before):
        groups[tuple(sample.labels.get(name, "") for name in query.by)].append(value)
    values = {labels: _FOLDS[query.fold](found) for labels, found in groups.items()}
    if (over := query.divided_by) is not None:
        divisors = {
            _named(over.by, labels): value for labels, value in evaluate(over, now, before).items() if value > 0
        }
        names = {labels: _named(query.by, labels) for labels in values}
        values = {labels: values[labels] / divisors[name] for labels, name in names.items() if name in divisors}
    return {labels: value * query.times for labels, value in values.items()}


def over_time(query: Query, readings: Mapping[datetime, Reading]) -> Mapping[tuple[str, ...], Line]:
    """The values of a query at all instants at which it has some; an increase needs the samples at its start, too."""
    lines: dict[tuple[str, ...], list[tuple[datetime, float]]] = defaultdict(list)
    for at in sorted(readings):
        before = readings.get(at - query.increase) if query.increase is not None else None
        for labels, value in evaluate(query, readings[at], before).items():
            lines[labels].append((at, value))
    return lines


def _series(query: Query, now: Reading, before: Reading | None) -> list[tuple[Sample, float]]:
    """The series that a query chooses, with their values, or with the growth of counters."""
    chosen = [s for s in now.get(query.metric, ()) if all(_meets(s, *each) for each in query.where.items())]
    if query.increase is None:
        return [(sample, sample.value) for sample in chosen]
    if before is None:
        return []
    starts = {frozenset(s.labels.items()): s.value for s in before.get(query.metric, ())}
    pairs = [(s, starts.get(frozenset(s.labels.items()), 0.0)) for s in chosen]
    # a counter that is smaller than before has begun again with 0
    return [(s, s.value - start if s.value >= start else s.value) for s, start in pairs]


def _meets(sample: Sample, label: str, wanted: str) -> bool:
    value = sample.labels.get(label, "")
    return value != wanted[1:] if wanted.startswith("!") else value == wanted


def _named(names: Sequence[str], values: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Labels as a set; an empty one is as good as none."""
    return frozenset((name, value) for name, value in zip(names, values, strict=True) if value)


def _numbers(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


_FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "max": lambda values: max(_numbers(values), default=math.nan),
    "min": lambda values: min(_numbers(values), default=math.nan),
}

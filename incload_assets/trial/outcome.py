"""The outcome of a case, compared with what the case expects."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from incload_assets.trial.cases import REASON, Case

Texts = Mapping[str, str | None]
"""A row as texts; equal texts mean equal values."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of the loads of a case.

    Args:
        rows: The table.
        expected: The expected rows, as texts of the same kind.
        rejected: The rejected rows, as their source had them, with their reasons.
        stopped: Why loads stopped, by the number of the window in the case.
        by: What evaluated it, for people.
    """

    rows: Sequence[Texts]
    expected: Sequence[Texts]
    rejected: Sequence[Texts]
    stopped: Mapping[int, str] = field(default_factory=dict)
    by: str = "without Spark"


@dataclass(frozen=True)
class Difference:
    """Rows that differ: an expected and a found one with the same key, or one without the other.

    Args:
        of: ``table`` or ``rejected rows``.
    """

    of: str
    expected: Texts | None
    found: Texts | None

    @property
    def columns(self) -> set[str]:
        """The columns that differ; empty if there is only one row."""
        if self.expected is None or self.found is None:
            return set()
        return {name for name in self.expected if self.expected[name] != self.found.get(name)}


def differences(case: Case, outcome: Outcome) -> Iterator[Difference]:
    """The differences between what a case expects and what its loads made."""
    columns = case.columns
    keys, condition = case.table.write.unique_rows(case.table.changes)
    keys = tuple(name for name in keys if name in columns) if condition is None else ()
    yield from _paired("table", _cut(outcome.expected, columns), _cut(outcome.rows, columns), keys)
    yield from _rejected(case, list(outcome.rejected))


def _rejected(case: Case, found: list[Texts]) -> Iterator[Difference]:
    """The rejected rows that differ; an expected one is any that has the values which it names."""
    for row in sorted(case.rejected, key=lambda row: -len(row.values)):
        same = (each for each in found if all(each.get(name) == text for name, text in row.values.items()))
        if (match := next(same, None)) is not None:
            found.remove(match)
        else:
            yield Difference("rejected rows", row.values, None)
    named = list(dict.fromkeys(name for row in case.rejected for name in row.values))
    for row_found in _cut(found, [*(named or case.table.columns), *([] if REASON in named else [REASON])]):
        yield Difference("rejected rows", None, row_found)


def unexpected_stops(case: Case, outcome: Outcome) -> Iterator[str]:
    """Loads that stopped unexpectedly, or that were expected to stop and did not."""
    for number, arrival in enumerate(case.arrivals):
        place = f"{case.file.name}:{arrival.line}: the load of {arrival.window.key}"
        if arrival.stops and number not in outcome.stopped:
            yield f"{place} was expected to stop, and did not"
        if not arrival.stops and number in outcome.stopped:
            yield f"{place} stopped: {outcome.stopped[number]}"


def _cut(rows: Sequence[Texts], columns: Sequence[str]) -> list[Texts]:
    return [{name: row.get(name) for name in columns} for row in rows]


def _paired(of: str, expected: list[Texts], found: list[Texts], keys: Sequence[str]) -> Iterator[Difference]:
    def left(rows: list[Texts], others: list[Texts]) -> list[Texts]:
        counts = Counter(tuple(row.items()) for row in rows)
        counts.subtract(Counter(tuple(row.items()) for row in others))
        return [dict(row) for row, count in counts.items() for _ in range(count)]

    more = left(found, expected)
    for row in left(expected, found):
        other = next((each for each in more if keys and all(each[name] == row[name] for name in keys)), None)
        if other is not None:
            more.remove(other)
        yield Difference(of, row, other)
    for row in more:
        yield Difference(of, None, row)

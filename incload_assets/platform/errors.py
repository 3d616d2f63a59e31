"""The errors of a load, one class for each cause.

    IncrementalLoadError
    ├── DeclarationError          a table is declared wrongly; raised when the code location loads
    ├── SourceMissing             the source holds nothing for the window yet
    ├── SourceUnreadable          a file or row set exists and cannot be read; a person must look
    ├── SourceUnavailable         the source does not answer; transient, retried
    ├── SourceChanged             the source changed while it was read; transient, retried
    ├── WindowCompacted           the window's log was compacted, so that it is not replaced unless that is chosen
    ├── WindowHeld                somebody has undone the window's load and its source has not changed since
    ├── CannotUndo                a window cannot be returned to what it held before
    ├── ContractViolation         more rejected rows than the table's threshold allows
    ├── SchemaMismatch            the table on disk and the declaration disagree
    ├── ConcurrentLoad            another load kept winning the race; transient, retried
    ├── TablePaused               a person has paused the loads of the table
    ├── LakeMistaken              the lake is another one, or a copy, than Dagster's checkpoints are of
    ├── ReconciliationFailed      the table does not hold what the log says it should
    ├── StoredFileLost            a data file of the table or its log was removed by somebody else
    ├── LakeUnreadable            a Delta table of the lake is damaged, locked or of a foreign format
    └── SparkUnavailable          Spark cannot be reached or started; transient, retried

Every message says what happened (table, partition, file or column, value), which rule it broke and what to do.
"""

from typing import ClassVar


class IncrementalLoadError(Exception):
    """Base of all errors of this package.

    Args:
        problem: What happened, naming table, partition, file or column, and the value.
        rule: The rule that was broken, if it is not plain from the problem.
        remedy: What to do now.

    Example:
        >>> str(SourceMissing("orders 2026-01-03: no file matches", remedy="wait for the file"))
        'orders 2026-01-03: no file matches. Remedy: wait for the file.'
    """

    transient: ClassVar[bool] = False
    """True if the same load may succeed a little later with nothing changed by a person."""

    def __init__(self, problem: str, *, rule: str | None = None, remedy: str | None = None) -> None:
        self.problem, self.rule, self.remedy = problem, rule, remedy
        parts = [problem.rstrip(".")]
        if rule:
            parts.append(f"Rule: {rule.rstrip('.')}")
        if remedy:
            parts.append(f"Remedy: {remedy.rstrip('.')}")
        super().__init__(". ".join(parts) + ("." if len(parts) > 1 else ""))


class DeclarationError(IncrementalLoadError):
    """A table is declared wrongly."""


class SourceMissing(IncrementalLoadError):
    """The source holds nothing for this window yet, and the table says to wait for it."""


class SourceUnreadable(IncrementalLoadError):
    """The source holds something for the window that cannot be read."""


class SourceUnavailable(IncrementalLoadError):
    """The source does not answer."""

    transient = True


class SourceChanged(IncrementalLoadError):
    """The source changed while it was being read."""

    transient = True


class ContractViolation(IncrementalLoadError):
    """More rows were rejected than the declared threshold allows; nothing was replaced."""


class WindowCompacted(IncrementalLoadError):
    """The source holds something else than was ingested, and the compacted log cannot show what that would change."""


class WindowHeld(IncrementalLoadError):
    """A load of the window was undone, and the source still holds what was undone."""


class CannotUndo(IncrementalLoadError):
    """The former content of a window is not kept, or there is nothing to undo."""


class SchemaMismatch(IncrementalLoadError):
    """The table on disk and its declaration cannot be brought together."""


class ConcurrentLoad(IncrementalLoadError):
    """Other loads won every attempt to commit."""

    transient = True


class TablePaused(IncrementalLoadError):
    """A person has paused the loads of the table; the sensor requests them again when the pause is over."""


class LakeMistaken(IncrementalLoadError):
    """The lake is not the one that Dagster's checkpoints of the table are of."""


class ReconciliationFailed(IncrementalLoadError):
    """After the bounded number of repairs the table still differs from the fold of its log."""


class StoredFileLost(IncrementalLoadError):
    """A data file that is part of a table or its log is gone."""


class LakeUnreadable(IncrementalLoadError):
    """A Delta table of the lake is there, or parts of it are, and it cannot be read."""


class SparkUnavailable(IncrementalLoadError):
    """Spark cannot be reached or started."""

    transient = True

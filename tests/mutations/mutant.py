"""A line that is broken, and the laws."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A line that is broken.

    Args:
        name: What is broken.
        law: What the line is there for.
        file: Where it is, from the project's root.
        old: The source, which stands there exactly once.
        new: What it becomes.
        tests: Node ids; at least one of these tests must fail.
    """

    name: str
    law: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


CONVERGENCE = "1 the table is the fold of its changes, whatever the order, batches and crashes of loads"
CHECKPOINT = "2 the checkpoint is last"
EXPLAIN = "3 the tables explain themselves: status can be rebuilt, a rollback is seen"
BINS = "4 each row read falls in exactly one bin"
PARTITION = "5 only this partition is read and written"
IDLE = "6 nothing to do costs nothing"
INSTANTS = "7 instants in UTC, to the microsecond; casts that fail give a reason"

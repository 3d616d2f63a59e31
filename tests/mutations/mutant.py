"""A line that is broken, and the laws."""

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """A line that is broken.

    Args:
        name: What is broken.
        law: What the line is there for.
        place: The function, class or constant that the line is in, for example ``writes.row_fold:fold_plan``.
        old: The source, which stands there exactly once.
        new: What it becomes.
        tests: Node ids; at least one of these tests must fail.
    """

    name: str
    law: str
    place: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def file(self) -> Path:
        """The file of the place, from the project's root."""
        module = self.place.partition(":")[0].split(".")
        return Path("incload_assets", *module).with_suffix(".py")

    def applied(self, source: str) -> str:
        """The source of the file with the line broken.

        Raises:
            ValueError: The place is not there, or does not hold the line exactly once.
        """
        start, end = _span(source, self.place.partition(":")[2])
        if (times := source[start:end].count(self.old)) != 1:
            raise ValueError(f"{self.old!r} stands {times} times in {self.place}")
        return source[:start] + source[start:end].replace(self.old, self.new) + source[end:]


def _span(source: str, name: str) -> tuple[int, int]:
    """Where a definition begins and ends in a source, decorators included."""
    body: list[ast.stmt] = ast.parse(source).body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next((node for node in body if part in _names(node)), None)
        if found is None:
            raise ValueError(f"there is no {name}")
        body = getattr(found, "body", [])
    assert found is not None and found.end_lineno is not None
    first = min([found.lineno, *(decorator.lineno for decorator in getattr(found, "decorator_list", []))])
    lines = source.splitlines(keepends=True)
    return len("".join(lines[: first - 1])), len("".join(lines[: found.end_lineno]))


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {found.id for target in targets for found in ast.walk(target) if isinstance(found, ast.Name)}


CONVERGENCE = "1 the table is the fold of its changes, whatever the order, batches and crashes of loads"
CHECKPOINT = "2 the checkpoint is last"
EXPLAIN = "3 the tables explain themselves: status can be rebuilt, a rollback is seen"
BINS = "4 each row read falls in exactly one bin"
PARTITION = "5 only this partition is read and written"
IDLE = "6 nothing to do costs nothing"
INSTANTS = "7 instants in UTC, to the microsecond; casts that fail give a reason"
PROTECTION = "8 protected values reach nothing that is kept or shown"

"""What each command answers about a table on which nothing is wrong, and what it may change by answering."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.conformance.kinds import D1, D3


@dataclass(frozen=True)
class Question:
    """A command that changes no table.

    Args:
        command: Its words; ``KEY`` stands for the key of a row.
        says: What its output has to contain.
        code: Its exit code.
        changes: What it may change: Delta tables by their path in the lake, ``dagster`` for runs.
    """

    command: str
    says: str
    code: int = 0
    changes: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Its words up to the table."""
        return self.command.partition(" items")[0].partition(" -")[0]


LOADS, AUDIT, RUNS = frozenset({"_loads"}), frozenset({"_audit"}), frozenset({"dagster"})
HEALTHY = (
    Question("load items --all-missing", "items: every partition is up to date with its source."),
    Question(f"plan items -p {D1}..{D3}", "3 partitions, each planned alone"),
    Question("plan items --all-missing", "every partition is up to date with its source"),
    Question("history items", "landing 1: is in the table", changes=LOADS),
    Question(f"history items {D3}", D3),
    Question(f"undo items -p {D3} --plan", "nothing"),
    Question("undo items --before 2100-01-01 --plan", "items: nothing was loaded since 2100-01-01."),
    Question("doctor", "examined: Dagster, logs, tables and lake agree"),
    Question("trace items KEY", "items KEY: the table has the row"),
    Question("changes items --since 0", "items has no change feed", code=1),
    Question("as-of items", "keeps no versions", code=1),
    Question("quarantine items", "big: not >= 0"),
    Question("check items", "reconciliation passed", changes=RUNS),
    Question("status", "items "),
    Question("slo", "items "),
    Question("slo items", "missing "),
    Question("ready items", "✓ reconciliation green", code=1),
    Question("metrics --once", 'incload_mismatches{kind="pending",table="items"} 0.0'),
    Question("contract show items", "write "),
    Question("contract diff", "no difference"),
    Question("contract diff items --replay 3", "no difference"),
    Question("contract unknown items", "declares all fields of the rows that the log has."),
    Question("contract history items", "first load"),
    Question("audit items", "none altered"),
    Question("backup --to saved", "databases", changes=AUDIT),
    Question("rebuild items", "items: 0 rebuilt, 3 known already, 0 not proven"),
    Question("shadow items", "items: table and shadow are equal"),
    Question("shadow items --drop", "items: removed the shadow"),
    Question("fill items", "items: no rescued field that a column lacks."),
    Question("adopt items --dry-run", "there is nothing to adopt: loads have made the table", code=1),
    Question("rebucket items", "items: is as it is declared", changes=AUDIT),
    Question("compact items --yes", "declares no log_retention", code=1),
    Question("erase customer a --plan", "items"),
    Question("reveal items KEY --because test", "items has no tokenized or encrypted column", code=1),
    Question("docs", "operating"),
)

ASKED_IN_STEPS = frozenset(
    {"undo", "release", "replay", "discard", "accept", "pause", "resume", "restore-instance", "dashboard"}
)
"""Commands that change something, or serve pages, and are tried in the steps of the test."""
TRIED_ELSEWHERE: Mapping[str, str] = {
    "explain": "tests/cli/test_test.py",
    "new": "tests/cli/test_new_table.py",
    "test": "tests/cli/test_test.py",
    "dev": "tests/cli/test_dev.py",
    "bootstrap": "tests/cli/test_bootstrap.py",
    "demo": "tests/cli/test_commands.py",
    "stop": "tests/cli/test_commands.py",
    "spark": "tests/cli/test_commands.py",
    "game-day": "tests/cli/test_drill.py",
    "monitoring": "tests/cli/test_monitoring.py",
    "silence": "tests/cli/test_doctor.py",
}
"""Commands that are about no table, or take values, and where they are tried."""

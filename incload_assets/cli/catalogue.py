"""The commands with their lines in ``incload --help``, which is shown without importing any of them."""

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """A command: the purpose under which the help lists it, its module, and the first line of its own help."""

    panel: str
    module: str
    line: str


_PANELS = {
    "First week": {
        "new": (
            "new",
            "Make a folder that is a project, or declare a table of a project as its rows look.",
        ),
        "dev": ("dev", "Start the Dagster UI and daemon, Spark in the background, and the sample shop."),
        "docs": ("docs", "List the pages of the documentation, or show one, or one section of it."),
        "status": ("status", "Show what is loaded, missing, failed or drifted per table, and how fresh it is."),
        "load": ("load", "Load partitions of a table, oldest first, adjacent ones in one Dagster run."),
        "plan": ("what_if", "Show what the loads of partitions would change in a table."),
        "check": ("check", "Evaluate every check of a table in one Dagster run."),
        "trace": ("trace", "Show every change of one row with its origin and outcome, and the row as it is now."),
        "quarantine": ("quarantine", "Show why rows are in quarantine, by reason and column, with samples."),
        "stop": ("stop", "End the servers that were started here: Spark, the sample shop's, and warm runs."),
    },
    "Load": {
        "bootstrap": ("bootstrap", "Load a partition with very many rows in chunks, and go on with them after a kill."),
        "fill": ("repair", "Fill columns that the contract declares now from fields that the log rescued before."),
        "replay": ("repair", "Validate rejected rows again by the present contract, without reading the source."),
        "release": ("repair", "Load partitions that are held after an undo from their source as it is."),
        "adopt": ("restore", "Adopt a Delta table that no load has made: its rows become the log's oldest changes."),
    },
    "Look": {
        "history": ("history", "Show the loads of a table, newest last: when, by whom, why, and what they changed."),
        "as-of": (
            "as_of",
            "Show the rows of a history in effect at one time, as they were known at another.",
        ),
        "changes": ("changes", "Show which rows a table's commits changed, from its change feed."),
        "audit": ("history", "Show who did what to tables, where and why, and verify that nobody altered the record."),
        "slo": ("service_levels", "Show per table whether its objectives are met, and the error budget left."),
        "doctor": ("restore", "Compare what Dagster, the logs, the tables and the lake's identity say."),
        "dashboard": ("dashboard", "Serve the three dashboards as a page: what is late, what fails, where time goes."),
    },
    "Repair": {
        "undo": ("repair", "Return partitions to what they held before a load, and hold them."),
        "accept": (
            "decisions",
            "Accept rejected rows although they break checks of the contract, and bring them into the table.",
        ),
        "discard": (
            "decisions",
            "Say that rejected rows need no correction: they stay in the log, and are no longer open.",
        ),
        "rebuild": ("restore", "Turn partitions green again after Dagster's storage was lost, without their sources."),
        "restore-instance": ("restore", "Put a backup of Dagster's storage back. Dagster must not be running."),
    },
    "People's data": {
        "erase": ("protection", "Erase a person from all tables, and search every file of the lake for a trace."),
        "reveal": (
            "protection",
            "Show the tokenized and encrypted values of a row in plain text, to whoever has the keys.",
        ),
    },
    "Operate": {
        "pause": ("operate", "Stop the loads of a table for a time. Detection and checks go on."),
        "resume": ("operate", "End the pause of a table: the sensor requests what has arrived meanwhile."),
        "silence": ("operate", "Send no messages and alerts for a time, for a deployment or other planned work."),
        "compact": ("operate", "Remove from a table's log what no longer decides; a schedule does so every night."),
        "rebucket": ("operate", "Divide a table into the number of hash buckets that its declaration has now."),
        "backup": ("restore", "Save Dagster's storage, with all checkpoints; a job does so every night."),
        "metrics": ("monitoring", "Serve the metrics of all tables to Prometheus, until it is interrupted."),
        "monitoring": ("monitoring", "Alert rules, routes and dashboards for other programs."),
        "spark": ("spark", "The Spark server that the loads on this machine share."),
        "game-day": (
            "game_day",
            "Load a scratch table while loads are killed, run twice, files are rewritten and the table is lost.",
        ),
    },
    "Develop": {
        "demo": ("demo", "Let the sample shop trade for a few days and load what it wrote, day by day."),
        "explain": ("explain", "Say in sentences what the declaration of a table does."),
        "test": ("test", "Load rows of test cases, and compare the tables with what the cases expect."),
        "contract": ("contract", "Contracts: show, compare, unknown fields, history."),
        "shadow": ("what_if", "Fold a table's log by the code of this folder into a second table, and compare them."),
        "ready": ("service_levels", "Check whether a table is ready for production, with a remedy for what is not."),
    },
}

COMMANDS: Mapping[str, Entry] = {
    name: Entry(panel, *place) for panel, entries in _PANELS.items() for name, place in entries.items()
}
"""The commands by name, in the order of the help."""

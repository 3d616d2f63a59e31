"""The rows in quarantine on a table's page: how many, why, and a few of them with their personal values masked."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.history.load_row import LoadRow, landings_of
from incload_assets.monitoring.dashboard.human import cut, number, share
from incload_assets.monitoring.dashboard.markup import Child, element, joined
from incload_assets.monitoring.dashboard.parts import Links, listing, marked, right
from incload_assets.monitoring.facts import TableFacts
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked, without_texts
from incload_assets.platform.lake import Lake
from incload_assets.quarantine.quarantine import RejectedRow, newest_rejected


def rejected_of(facts: TableFacts, lake: Lake) -> Sequence[RejectedRow] | str:
    """The newest rejected rows of a table, or why they cannot be read; the rest of its page is there anyhow.

    Args:
        facts: The table's facts; if its loads have rejected nothing, its log is not read.
        lake: The lake with the log.
    """
    windows = [row.window for row in _quarantined(facts)]
    try:
        with without_texts(f"{facts.table.name}: rejected rows"):
            return newest_rejected(facts.table, lake, windows) if windows else ()
    except IncrementalLoadError as error:
        return masked(str(error))


def _quarantined(facts: TableFacts) -> list[LoadRow]:
    """The present load of each window that has rows in quarantine, the newest first."""
    loaded = [rows[0] for rows in landings_of([*reversed(facts.recent)]).values()]
    return [row for row in loaded if row.quarantined]


def quarantine(facts: TableFacts, links: Links, newest: Sequence[RejectedRow] | str) -> Child:
    """The rows in quarantine of a table: how many by window, why, and a few of them.

    Args:
        facts: The table's facts.
        links: The addresses that the page points to.
        newest: The newest rejected rows, or why they cannot be read.
    """
    found = _quarantined(facts)
    if not found:
        return element("p", "No row is in quarantine.", class_="quiet")
    rows = [
        (row.window, right(number(row.quarantined)), right(number(row.rows_read)),
         right(share(row.quarantined / row.rows_read) if row.rows_read else ""), links.load(row.run_id))
        for row in found
    ]  # fmt: skip
    return joined(
        listing("Rows in quarantine", ["window", "rows", "read", "share", "run"], rows, fold="quarantine"),
        element("h3", "Reasons"),
        _reasons(facts),
        element("h3", "Newest rows"),
        _newest(newest),
    )


def _newest(newest: Sequence[RejectedRow] | str) -> Child:
    """A few rejected rows, whose values are masked where they may be personal."""
    if isinstance(newest, str):
        return element("p", marked(newest), class_="worry")
    if not newest:
        return element("p", "The log no longer has any.", class_="quiet")
    cells = [
        (row.window, row.place, "; ".join(row.reasons), element("span", cut(row.payload), class_="code"))
        for row in newest
    ]
    return listing("Newest rows", ["window", "from", "reasons", "record, masked"], cells, fold="newest-rejected")


def _reasons(facts: TableFacts) -> Child:
    """The reasons that the check ``quarantine`` counted, in which values are left out or masked."""
    check = facts.checks.get("quarantine")
    found = check.values.get("reasons") if check else None
    rows = [record.data for record in found.records] if isinstance(found, dg.TableMetadataValue) else []
    if not rows:
        return element("p", "The check quarantine has not counted them yet.", class_="none")
    cells = [(str(r.get("reason")), right(str(r.get("rows"))), str(r.get("for example"))) for r in rows]
    return listing("Reasons", ["reason", "rows in a sample", "for example"], cells, fold="reasons")

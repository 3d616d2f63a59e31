"""The UI as a person sees it: materialize a partition, see it green, see its checks."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from incload_assets.checks import LIGHT_CHECKS
from incload_assets.platform.local_servers.files import free_port
from tests.support.project_copy import PROJECT, Clone, readme_files
from tests.ui.browser import end, open_page, wait_until_up

PICTURES = PROJECT / ".artefacts" / "ui"
DAY = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()  # the dialog offers the last 90 days
LOAD_MILLISECONDS = 240_000


@pytest.fixture
def address(tmp_path: Path, spark_url: str) -> Iterator[str]:
    """``incload dev`` in a project with the README's table, at this address."""
    clone = Clone.of(tmp_path, spark_url)
    for path, content in readme_files().items():
        clone.write(path.replace("2026-01-05", DAY), content)
    port = free_port()
    PICTURES.mkdir(parents=True, exist_ok=True)
    with (PICTURES / "dev.log").open("w") as log:
        dev = clone.dev(port, log)
        try:
            wait_until_up(f"http://127.0.0.1:{port}", dev, PICTURES / "dev.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            end(dev)
            clone.incload("stop")


@pytest.fixture
def page() -> Iterator[Page]:
    """A browser's page."""
    with open_page(1500, 1000) as page:
        yield page
        page.screenshot(path=PICTURES / "last.png")


def launch_configured(page: Page, address: str, job: str, config: dict[str, Any]) -> None:
    """Types the configuration of a job into the launchpad, and shows the run that this launches, or why it does not."""
    page.goto(f"{address}/locations/my_lake/jobs/{job}/playground")
    page.locator(".CodeMirror").first.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(json.dumps(config))
    page.get_by_role("button", name="Launch Run").click()
    page.get_by_text(re.compile("RUN_START|Rule: ")).first.wait_for(timeout=LOAD_MILLISECONDS)


@pytest.mark.ui
def test_a_partition_is_materialized_turns_green_and_shows_its_checks(
    address: str, page: Page, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    page.goto(f"{address}/assets/payments?view=partitions")
    page.get_by_role("button", name="Materialize…").click()
    dialog = page.locator(".dagster-portal", has_text="Launch runs to materialize payments")
    partitions = dialog.get_by_role("textbox").first
    partitions.fill(DAY)
    partitions.press("Enter")
    dialog.get_by_role("button", name="Launch 1 run").click()
    clicked = time.monotonic()

    # who looks at it sees it turn green; on the road to it are Spark's first load and the queue
    page.goto(f"{address}/assets/payments?view=partitions")
    expect(page.get_by_text("Materialized (1)").first).to_be_visible(timeout=LOAD_MILLISECONDS)
    record_property("seconds from the click to green", round(time.monotonic() - clicked, 1))
    page.screenshot(path=PICTURES / "green.png", full_page=True)

    # the run that was launched, to its end
    page.goto(f"{address}/runs")
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=LOAD_MILLISECONDS)

    # its process was forked from the one that was got ready
    [ready] = (tmp_path / "my_lake" / ".incload" / "warm_runs").iterdir()
    assert "RUN_SUCCESS" in (ready / "server.log").read_text()

    # the partition is green, with what was loaded
    page.goto(f"{address}/assets/payments?view=partitions&partition={DAY}")
    tag = page.locator(f"[data-tooltip='{DAY}'] .BaseTag")
    expect(tag).to_have_text("Materialized")
    expect(page.get_by_role("row").filter(has_text="rows_read").first).to_contain_text("6")
    expect(page.get_by_role("row").filter(has_text="quarantined").first).to_contain_text("1")
    page.screenshot(path=PICTURES / "partition.png", full_page=True)

    # its checks say what they found
    page.goto(f"{address}/assets/payments?view=checks")
    for name in sorted({*LIGHT_CHECKS, "reconciliation", "uniqueness"} - {"headroom", "clock", "freshness"}):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    page.get_by_text("uniqueness", exact=True).first.click()
    expect(page.get_by_text("2 rows, no key twice.").first).to_be_visible()
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()
    page.screenshot(path=PICTURES / "checks.png", full_page=True)

    # jobs with a form: one that only looks, and one that has to be confirmed
    about = {"table": "payments", "because": "a test"}
    launch_configured(page, address, "plan_loads", {"table": "payments", "partitions": [DAY]})
    expect(page.get_by_text("nothing was written").first).to_be_visible(timeout=LOAD_MILLISECONDS)
    launch_configured(page, address, "discard_rows", about)
    expect(page.get_by_text("confirm").first).to_be_visible(timeout=LOAD_MILLISECONDS)
    launch_configured(page, address, "discard_rows", {**about, "confirm": "payments"})
    expect(page.get_by_text("payments: discard: 1 row").first).to_be_visible(timeout=LOAD_MILLISECONDS)
    page.screenshot(path=PICTURES / "discarded.png", full_page=True)


@pytest.mark.ui
def test_a_bad_load_is_undone_by_clicking_and_loaded_when_its_file_is_corrected(
    address: str, page: Page, tmp_path: Path
) -> None:
    [file] = tmp_path.rglob(f"landing/payments/{DAY}.csv")
    good = file.read_text()

    def load() -> None:
        page.goto(f"{address}/assets/payments?view=partitions")
        page.get_by_role("button", name="Materialize…").click()
        dialog = page.locator(".dagster-portal", has_text="Launch")
        partitions = dialog.get_by_role("textbox").first
        partitions.fill(DAY)
        partitions.press("Enter")
        dialog.get_by_role("button", name="Launch 1 run").click()
        page.get_by_text("Launched run").first.wait_for()  # another page would end the request

    def expect_row(name: str, text: str) -> None:
        """Looks at the partition until a row of its metadata has a text: the page does not change by itself."""
        until = time.monotonic() + LOAD_MILLISECONDS / 1000
        while True:
            page.goto(f"{address}/assets/payments?view=partitions&partition={DAY}")
            try:
                expect(page.get_by_role("row").filter(has_text=name).first).to_contain_text(text, timeout=5_000)
                return
            except AssertionError:
                if time.monotonic() > until:
                    raise

    load()
    expect_row("rows_read", "6")
    lines = good.splitlines(keepends=True)
    file.write_text("".join(lines[:2]))
    load()
    expect_row("rows_read", "1")
    launch_configured(page, address, "undo_loads", {"table": "payments", "partitions": ["2025-01-01"]})
    expect(page.get_by_text("payments has no partition '2025-01-01'. Rule:").first).to_be_visible()
    form = {"table": "payments", "partitions": [DAY], "because": "a wrong file"}
    launch_configured(page, address, "undo_loads", form)
    expect(page.get_by_text("asked Dagster for the backfill").first).to_be_visible(timeout=LOAD_MILLISECONDS)
    expect_row("held", "a wrong file")
    expect_row("rows_read", "6")
    page.screenshot(path=PICTURES / "held.png", full_page=True)
    file.write_text("".join(lines[:3]))
    load()
    expect_row("rows_read", "2")
    expect(page.get_by_role("row").filter(has_text="held by")).to_have_count(0)
    expect(page.locator(f"[data-tooltip='{DAY}'] .BaseTag")).to_have_text("Materialized")

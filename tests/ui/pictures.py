"""The pictures of the documentation: ``python -m tests.ui.pictures`` takes them of the sample shop in the real UI.

It takes some minutes: a shop opens in a clone of its own, with its PostgreSQL, its Kafka and a Spark, and its tables
are loaded. With the address of a UI that is up, such as ``http://127.0.0.1:3000``, they are taken there. With the
word ``dashboards`` only those of ``incload dashboard`` are taken, of two weeks of made-up loads of the shop's tables,
because a shop that has just opened has no two weeks. Look at each picture before you commit it.
"""

import os
import re
import sys
import time
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Locator, Page

from incload_assets.assets.incremental import table_of
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.drawing import Links
from incload_assets.monitoring.dashboard.page_server import Looks
from incload_assets.monitoring.dashboard.view import look
from incload_assets.monitoring.panels import DASHBOARDS
from incload_assets.platform.local_servers.files import free_port
from tests.support.documents import DOCS
from tests.support.made_up_loads import made_up, now, weeks
from tests.support.pages import served
from tests.support.project_copy import Clone
from tests.ui.browser import end, open_page, wait_until_up

PICTURES = DOCS / "pictures"
WIDTH, HEIGHT = 1400, 800
MOST_BYTES = 200_000
LOADED_MILLISECONDS = 1_500_000
TURNING = ("customers", "inventory", "daily_sales", "stock_levels", "customer_features")
"""Tables that are loaded late enough to be seen while they are."""
LOUD = ("orders", "price_changes", "customers", "inventory", "events")
"""Tables about which the dashboards have something to say."""
NARROW, MOST_PIXELS = 1240, {"debug": 860}
"""The width of a picture of a dashboard, and its height if it has to be cut; what has many lines is large."""
ENVIRONMENT = {"INCLOAD_SPARK": "local", "INCLOAD_SPARK_MEMORY": "2g", "INCLOAD_KAFKA": "true"}


def take(page: Page, name: str, *, above: Locator | None = None) -> None:
    """Take a picture of the page when it has come to rest.

    Args:
        page: What is shown.
        name: Of the picture.
        above: The picture ends above it; None: with the page.
    """
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    time.sleep(4)
    path = PICTURES / f"{name}.png"
    box = above.bounding_box() if above is not None else None
    size = page.viewport_size
    assert size is not None
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": size["width"], "height": box["y"] - 8} if box else None)
    bytes_of_it = path.stat().st_size
    assert bytes_of_it < MOST_BYTES, f"{name} has {bytes_of_it} bytes"
    print(f"{path}: {bytes_of_it} bytes", flush=True)


def take_partitions(page: Page, address: str) -> None:
    """Partitions of a table of which some are green and some are being loaded."""
    for table in cycle(TURNING):
        page.goto(f"{address}/assets/{table}?view=partitions")
        page.get_by_text(re.compile(r"Materializing \(\d")).first.wait_for()
        time.sleep(2)
        if re.search(r"Materialized \([1-9].*Materializing \([1-9]", page.inner_text("body"), re.DOTALL):
            return take(page, "partitions")


def take_partition(page: Page, address: str, table: str) -> None:
    """A green partition: what was loaded, and the evidence that it is right."""
    page.goto(f"{address}/assets/{table}?view=partitions")
    page.get_by_text(re.compile(r"Missing \(0\)")).first.wait_for(timeout=LOADED_MILLISECONDS)
    page.get_by_text(re.compile(r"^\d{4}-\d\d-\d\d$")).nth(4).click()
    page.get_by_text("rows_read").first.wait_for()
    take(page, "partition")
    page.get_by_text("evidence", exact=True).first.scroll_into_view_if_needed()
    page.get_by_text("sample", exact=True).first.scroll_into_view_if_needed()
    take(page, "evidence", above=page.get_by_text("table", exact=True).last)  # which is a path on this machine


def take_checks(page: Page, address: str, table: str) -> None:
    """The checks of a table, one of them in full."""
    page.goto(f"{address}/assets/{table}?view=checks")
    page.get_by_text("quarantine", exact=True).first.click()
    page.get_by_text("Latest execution").first.wait_for()
    take(page, "checks")


def take_undo(page: Page, address: str, table: str) -> None:
    """What a person does to undo loads: the form, filled in, and the backfill that its run asks for."""
    first, last = (f"{now().date() - timedelta(days=back)}" for back in (3, 2))
    page.goto(f"{address}/locations/incload/jobs/undo_loads/playground")
    page.locator(".CodeMirror").first.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(f"table: {table}\npartitions: [{first}..{last}]\nbecause: wrong prices\n")
    page.get_by_text("No errors").first.wait_for()
    take(page, "undo_form")
    page.get_by_role("button", name="Launch Run").click()
    asked = page.get_by_text(re.compile("asked Dagster for the backfill")).first.inner_text()
    where = asked.rpartition(" ")[2]
    page.goto(f"{address}{where}")
    page.get_by_text("Partition selection").first.wait_for()
    page.set_viewport_size({"width": WIDTH, "height": 400})
    take(page, "undo_backfill")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def take_catalog(page: Page, address: str) -> None:
    """The tables, with their status."""
    page.goto(f"{address}/assets")
    page.get_by_text(re.compile(r"^\d+ partitions?$")).nth(9).wait_for()
    take(page, "catalog")


def take_dashboards() -> None:
    """The three dashboards."""
    with TemporaryDirectory(prefix="pictures-") as folder, open_page(WIDTH, HEIGHT) as page:
        opened = now().date() - timedelta(days=20)
        os.environ.update(INCLOAD_HOME=folder, INCLOAD_KAFKA="true", INCLOAD_SHOP_OPENED=f"{opened}")
        from incload_assets.definitions import defs  # reads the environment

        assets = defs.get_repository_def().assets_defs_by_key.values()
        tables = {table.name: table for asset in assets if (table := table_of(asset)) is not None}
        names = [*LOUD, *(name for name in sorted(tables) if name not in LOUD)]
        with made_up(Path(folder), tables, now()) as world:
            weeks(world, names)
            looks = Looks(lambda _: look(world.instance, [*tables.values()], world.lake, world.at))
            with served(looks, LoadsTable(world.lake), Links("http://127.0.0.1:3000")) as server:
                for dashboard in DASHBOARDS:
                    page.set_viewport_size({"width": NARROW, "height": HEIGHT})
                    page.goto(f"http://127.0.0.1:{server.server_address[1]}/{dashboard.name}")
                    height = min(
                        page.evaluate("document.documentElement.scrollHeight"), MOST_PIXELS.get(dashboard.name, 1060)
                    )
                    page.set_viewport_size({"width": NARROW, "height": height})
                    take(page, f"dashboard_{dashboard.name.replace('-', '_')}")


def pictures(address: str) -> None:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with open_page(WIDTH, HEIGHT) as page:
        take_partitions(page, address)
        take_partition(page, address, "orders")
        take_checks(page, address, "orders")
        take_catalog(page, address)
        take_undo(page, address, "orders")


def main() -> None:
    """Open a shop in a clone, and take the pictures as its tables load."""
    with TemporaryDirectory(prefix="pictures-") as folder:
        clone, port, log = Clone.of_repository(Path(folder), "local"), free_port(), Path(folder) / "dev.log"
        with log.open("w") as said:
            dev = clone.dev(port, said, **ENVIRONMENT, INCLOAD_SAMPLES="true")
            try:
                wait_until_up(f"http://127.0.0.1:{port}", dev, log)
                pictures(f"http://127.0.0.1:{port}")
            finally:
                end(dev)
                clone.incload("stop", **ENVIRONMENT)


if __name__ == "__main__":
    if sys.argv[1:] == ["dashboards"]:
        take_dashboards()
    elif len(sys.argv) > 1:
        pictures(sys.argv[1])
    else:
        main()
        take_dashboards()

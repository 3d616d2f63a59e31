"""The pictures of the documentation: ``python -m tests.ui.pictures`` takes them of the sample shop in the real UI.

It takes some minutes: a shop opens in a clone of its own, with its PostgreSQL, its Kafka and a Spark, and all its
tables are loaded. Look at each picture before you commit it.
"""

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

from resources.local_server import free_port
from tests.clone import Clone
from tests.documents import DOCS
from tests.ui.browser import end, open_page, wait_until_up

PICTURES = DOCS / "pictures"
WIDTH, HEIGHT = 1400, 800
MOST_BYTES = 200_000
LOADED_SECONDS = 1_200
TABLE = "orders"
ENVIRONMENT = {"INCLOAD_SPARK": "local", "INCLOAD_SPARK_MEMORY": "2g", "INCLOAD_KAFKA": "true"}


def take(page: Page, name: str) -> None:
    """Take a picture of the page when it has come to rest."""
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    time.sleep(3)
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    assert size < MOST_BYTES, f"{name} has {size} bytes"
    print(f"{path}: {size} bytes")


def loaded(clone: Clone) -> dict[str, int]:
    """The partitions of each table that are not loaded, though its source holds them."""
    done = clone.incload("status", "--json", **ENVIRONMENT)
    return {
        status["table"]: sum(len(status[name]) for name in ("missing", "failed", "drifted", "in_progress"))
        for status in json.loads(done.stdout)
        if "missing" in status
    }


def wait_until_loaded(clone: Clone, tables: int) -> None:
    """Wait until no more than some tables have something to load; open windows always come again."""
    deadline = time.monotonic() + LOADED_SECONDS
    while time.monotonic() < deadline:
        pending = {table: count for table, count in loaded(clone).items() if count}
        print(f"to be loaded: {pending}", flush=True)
        if len(pending) <= tables and TABLE not in pending:
            return
        time.sleep(10)
    raise AssertionError("the shop's tables are not loaded")


def main() -> None:
    """Open a shop, and take the pictures as its tables load."""
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="pictures-") as folder:
        clone, port = Clone.of(Path(folder), "local"), free_port()
        address = f"http://127.0.0.1:{port}"
        log = Path(folder) / "dev.log"
        with log.open("w") as said:
            dev = clone.dev(port, said, **ENVIRONMENT, INCLOAD_SAMPLES="true")
            try:
                wait_until_up(address, dev, log)
                with open_page(WIDTH, HEIGHT) as page:
                    pictures(page, address, clone)
            finally:
                end(dev)
                clone.incload("stop", **ENVIRONMENT)


def pictures(page: Page, address: str, clone: Clone) -> None:
    """Take the pictures."""
    page.goto(f"{address}/assets/{TABLE}?view=partitions")
    page.get_by_text("Materialized (").first.wait_for(timeout=LOADED_SECONDS * 1_000)
    take(page, "partitions")
    wait_until_loaded(clone, tables=4)
    clone.incload("check", TABLE, **ENVIRONMENT)
    [status] = [
        one for one in json.loads(clone.incload("status", "--json", **ENVIRONMENT).stdout) if one["table"] == TABLE
    ]
    page.goto(f"{address}/assets/{TABLE}?view=partitions&partition={status['loaded'][-2]}")
    page.get_by_text("rows_read").first.wait_for()
    take(page, "materialization")
    page.goto(f"{address}/assets/{TABLE}?view=checks")
    page.get_by_text("reconciliation", exact=True).first.click()
    take(page, "checks")
    page.goto(f"{address}/assets")
    page.get_by_text(TABLE, exact=True).first.wait_for()
    take(page, "catalog")


if __name__ == "__main__":
    main()

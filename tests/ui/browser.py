"""``incload dev`` and a browser on its UI."""

import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from playwright.sync_api import Page, expect, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
UP_SECONDS = 240
SHOWN_MILLISECONDS = 60_000  # the browser shares two cores with tests


@contextmanager
def open_page(width: int, height: int) -> Iterator[Page]:
    """A page of a browser.

    Args:
        width: Of the page, in pixels.
        height: Of its visible part.
    """
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert browser, "Chromium is driven, which is not installed"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        page = chromium.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(SHOWN_MILLISECONDS)
        expect.set_options(timeout=SHOWN_MILLISECONDS)
        yield page
        chromium.close()


def wait_until_up(address: str, dev: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the UI answers.

    Args:
        address: Of the UI.
        dev: ``incload dev``.
        log: What it prints.
    """
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        assert dev.poll() is None, f"incload dev ended, see {log}"
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{address}/server_info", timeout=5):
            return
        time.sleep(0.5)
    raise AssertionError(f"incload dev is not up after {UP_SECONDS} s, see {log}")


def end(dev: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C, and whatever of it does not listen."""
    family = psutil.Process(dev.pid).children(recursive=True) if dev.poll() is None else []
    with suppress(ProcessLookupError):
        os.kill(dev.pid, signal.SIGINT)
    try:
        dev.wait(30)
    except subprocess.TimeoutExpired:
        dev.kill()
        dev.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()

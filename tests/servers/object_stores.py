"""Emulators of other object stores than S3, where somebody has installed them."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import requests

from incload_assets.platform.local_servers.files import free_port

AZURITE = "azurite-blob"
"""The emulator of Azure's blobs, from npm's package azurite."""
FAKE_GCS = "fake-gcs-server"
"""The emulator of Google Cloud Storage, a program in Go of the same name."""
ACCOUNT = "devstoreaccount1"
"""Azurite's account."""
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Its key, which Azurite's documentation publishes."""


def lacks(program: str) -> bool:
    """True if an emulator is not installed."""
    return shutil.which(program) is None


@contextmanager
def azurite() -> Iterator[dict[str, str]]:
    """The emulator of Azure for as long as the block runs; the environment of a process that uses it."""
    port = free_port()
    command = [AZURITE, "--inMemoryPersistence", "--silent", "--blobPort", str(port), "--skipApiVersionCheck"]
    with _running(command, f"http://127.0.0.1:{port}"):
        yield {"AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}"}


@contextmanager
def fake_gcs() -> Iterator[dict[str, str]]:
    """The emulator of Google Cloud Storage for as long as the block runs; the environment that uses it."""
    url = f"http://127.0.0.1:{free_port()}"
    host, port = url.removeprefix("http://").split(":")
    command = [FAKE_GCS, "-scheme", "http", "-host", host, "-port", port, "-backend", "memory", "-external-url", url]
    with _running([*command, "-public-host", f"{host}:{port}"], url):
        yield {"STORAGE_EMULATOR_HOST": url}


@contextmanager
def _running(command: Sequence[str], url: str) -> Iterator[None]:
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "NODE_NO_WARNINGS": "1"}
    )
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                requests.get(url, timeout=10)
                break
            except requests.ConnectionError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait(10)

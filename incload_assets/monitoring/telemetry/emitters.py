"""The receivers of new rows of ``_loads``: traces and lineage, each only where the environment names one.

Rows matter more than what is made of them: a receiver that is down, slow or wrong costs a warning, never a row. What it
did not take is not sent again by itself, but can be sent by hand from ``_loads``, with the same identifiers.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.history.collect import Emit, collect
from incload_assets.history.load_row import LoadRow
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import several

LIMIT_SECONDS = 10.0
"""Longest time that a collection waits for one receiver."""
EXTRA = "pip install 'incload[observability]'"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

Warn = Callable[[str], object]
_log = logging.getLogger(__name__)


def collect_and_send(
    instance: dg.DagsterInstance, tables: Iterable[Table], lake: Lake, warn: Warn = _log.warning
) -> int:
    """Appends the loads that ended since the last collection to ``_loads``, sends them on, and returns their number.

    Whoever collects a load first has to send it; so everything but tests collects by this function. ``warn`` gets one
    line for each receiver that could not be reached.

    Raises:
        SparkUnavailable, IncrementalLoadError: The lake's object store does not answer, or refuses.
    """
    tables = list(tables)
    return collect(instance, tables, lake, emitters(tables, lake, warn))


def emitters(tables: Sequence[Table], lake: Lake, warn: Warn = _log.warning) -> Emit:
    """A function that sends new rows wherever the environment says; for :func:`~.collect.collect`."""

    def emit(rows: Sequence[LoadRow]) -> None:
        for what, sending in (("traces", _traces), ("lineage", partial(_lineage, tables, lake))):
            try:
                if (send := sending()) is not None:
                    _within_limit(what, send, rows)
            except Exception as error:
                warn(f"{what} of {several(len(rows), 'load')} may be lost: {_described(error)}")

    return emit


def _traces() -> Emit | None:
    """The sender of traces; None if no endpoint is named, or the SDK is turned off by its own variables."""
    named = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if named is None or off or os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return None
    try:
        from incload_assets.monitoring.telemetry.traces import (
            send_traces,  # an extra, and imported only where it is used
        )
    except ImportError as error:
        raise _not_installed(named, error) from None
    return send_traces


def _lineage(tables: Sequence[Table], lake: Lake) -> Emit | None:
    """The sender of lineage; None if openlineage-python is not configured by any of its own ways, or is turned off."""
    named = _lineage_configuration()
    if named is None or os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from incload_assets.monitoring.telemetry.lineage import send_lineage  # an extra, as above
    except ImportError as error:
        raise _not_installed(named, error) from None
    return partial(send_lineage, tables, lake)


def _lineage_configuration() -> str | None:
    """The variable or the file that configures a transport."""
    variables = sorted(name for name in os.environ if name.startswith("OPENLINEAGE__TRANSPORT"))
    files = [Path("openlineage.yml").absolute(), Path.home() / ".openlineage" / "openlineage.yml"]
    if given := os.environ.get("OPENLINEAGE_CONFIG"):
        files.insert(0, Path(given))
    found = next((str(file) for file in files if file.is_file()), None)
    return "OPENLINEAGE_URL" if os.environ.get("OPENLINEAGE_URL") else next(iter(variables), found)


def _not_installed(named: str, error: ImportError) -> IncrementalLoadError:
    return IncrementalLoadError(
        f"{named} asks for them, but the package {(error.name or str(error)).partition('.')[0]} is not installed",
        remedy=f"{EXTRA}, or remove {named}",
    )


def _within_limit(what: str, send: Emit, rows: Sequence[LoadRow]) -> None:
    """Sends in a thread, so that not even a name server that does not answer holds up the collection."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            send(rows)
        except BaseException as error:
            raised.append(error)

    thread = Thread(target=run, name=f"incload-{what}", daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    if thread.is_alive():
        raise IncrementalLoadError(
            f"their receiver took longer than {LIMIT_SECONDS:.0f} s",
            rule="a collection waits no longer, because rows matter more",
            remedy="nearer or faster receivers, for example an OpenTelemetry Collector on the same machine",
        )
    for error in raised:
        raise error


def _described(error: BaseException) -> str:
    """An error for a log: of foreign ones only the kind, because their messages may quote addresses with secrets."""
    if isinstance(error, IncrementalLoadError):
        return masked(str(error))
    return f"{type(error).__name__} at the receiver. Remedy: check its address and credentials."

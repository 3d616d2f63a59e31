"""What goes wrong in Dagster's log, one line for each error."""

from pathlib import Path

from incload_assets.cli.support.dev_report import DagsterLog

FINE = "\x1b[32m2026-11-26 07:40:04 +0000\x1b[0m - dagster - \x1b[34mINFO\x1b[0m - Launching Dagster services...\n"
MISSPELT = """\
2026-11-26 07:40:14 +0000 - dagster.code_server - \x1b[34mERROR\x1b[0m - dagster._core.errors.DagsterImportError: \
Encountered ImportError: `No module named 'nosuch'` while importing module incload_assets.definitions.

The above exception was caused by the following exception:
ModuleNotFoundError: No module named 'nosuch'

Stack Trace:
  File "/clone/incload_assets/definitions.py", line 58, in <module>
    defs = code_location(Settings())
  File "/clone/incload_assets/tables/broken.py", line 1, in <module>
    import nosuch
"""
NO_ANSWER = """\
2026-11-26 07:40:18 +0000 - dagster.daemon.SensorDaemon - ERROR - Sensor daemon caught an error for sensor watch_prices
incload_assets.platform.errors.SourceUnavailable: shop.prices: no answer. Remedy: start it.

Stack Trace:
  File "/clone/incload_assets/automation/source_sensor.py", line 61, in sensor
"""


def test_an_error_is_told_by_its_innermost_cause_and_the_place_of_it(tmp_path: Path) -> None:
    log = _log(tmp_path, FINE + MISSPELT + FINE)
    assert log.errors() == [
        "ModuleNotFoundError: No module named 'nosuch' (/clone/incload_assets/tables/broken.py, line 1)"
    ]


def test_an_error_that_comes_again_and_again_is_told_once(tmp_path: Path) -> None:
    log = _log(tmp_path, NO_ANSWER + FINE)
    assert log.errors() == ["SourceUnavailable: shop.prices: no answer. Remedy: start it."]

    _write(tmp_path, NO_ANSWER + NO_ANSWER)

    assert (log.errors(), log.errors()) == ([], [])


def test_an_error_that_is_being_written_is_told_when_it_is_complete(tmp_path: Path) -> None:
    log = _log(tmp_path, NO_ANSWER[:130])
    assert log.errors() == []

    _write(tmp_path, NO_ANSWER[130:])

    assert (log.errors(), log.errors()) == ([], ["SourceUnavailable: shop.prices: no answer. Remedy: start it."])


def test_a_log_that_began_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = _log(tmp_path, FINE * 50)
    assert log.errors() == []

    (tmp_path / "dagster.log").write_text(NO_ANSWER + FINE)

    assert log.errors() == ["SourceUnavailable: shop.prices: no answer. Remedy: start it."]


def _log(folder: Path, content: str) -> DagsterLog:
    _write(folder, content)
    return DagsterLog(folder / "dagster.log")


def _write(folder: Path, content: str) -> None:
    with (folder / "dagster.log").open("a") as file:
        file.write(content)

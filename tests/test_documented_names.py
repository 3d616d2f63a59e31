"""What the pages name is there, and what they say is not there is not: commands, options, settings, jobs, checks."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from incload_assets.cli.program import program
from incload_assets.definitions import defs
from incload_assets.monitoring.metrics import METRICS
from incload_assets.monitoring.prometheus.alerts import ALERTS
from incload_assets.monitoring.prometheus.exporter import WHOLE
from incload_assets.platform.settings import Settings
from tests.support.documents import PAGES, Page

KINDS = ("job", "sensor", "schedule", "check", "metric", "alert")
NAMED = re.compile(rf"\b({'|'.join(KINDS)})s? ((?:`[^`]+`(?:,? and |,? or |, )?)+)", re.IGNORECASE)
"""Names that follow the word for what they are: the jobs `a`, `b` and `c`."""
OF_THE_READER = {"measure_tables_schedule", "notify"}
"""Made by an example of a page, or by settings."""
ENVIRONMENT = re.compile(
    r"INCLOAD_(DATABASE_\w+?_(URL|USER|PASSWORD|PASSWORD_FILE|TIMEOUT)|KAFKA_\w+?_(SERVERS|(SPARK_)?OPTIONS(_FILE)?)|"
    r"REGISTRY_\w+?_(URL|USER|(PASSWORD|TOKEN)(_FILE)?|CA)|KEY_\w+?(_FILE)?|TEST_(PART|NIGHT|EXAMPLES)|SHOP_OPENED)"
)
"""Variables that are no fields of the settings; a page writes ``<NAME>`` for a name."""
CLAIM = re.compile(
    r"[^.:;|]*(?:[Tt]here is no (?:command|option|setting|job|check|metric)|[Nn]ot available|not (?:yet )?"
    r"(?:supported|implemented|possible)|(?:is|are) done by hand|By hand, in this order|cannot be undone)[^.,:;|]*"
)
"""A sentence that says of something that it does not exist."""
ABSENT = {
    "Native Windows is not supported": "native",
    "It cannot be undone": "^erase --undo",
    "Windows compacted by `log_retention` cannot be undone": "^undo --.*compact",
}
"""All these sentences, with a pattern of what they are about: no command, option, setting or job has such a name."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def commands(command: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every command and group by its words, with its options."""
    yield before, {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
    for name, under in getattr(command, "commands", {}).items():
        yield from commands(under, (*before, name))


OPTIONS = dict(commands(typer.main.get_command(program)))


@cache
def there() -> dict[str, set[str]]:
    """The names of each kind; a job or sensor of a table also under ``<table>`` and the tables of the pages."""
    code = defs.get_repository_def()
    found = {
        "job": {job.name for job in code.get_all_jobs()},
        "sensor": {sensor.name for sensor in code.sensor_defs},
        "schedule": {schedule.name for schedule in code.schedule_defs},
        "check": {key.name for key in code.asset_graph.asset_check_keys},
        "metric": {metric.name for metric in METRICS} | WHOLE.keys(),
        "alert": {alert.name for alert in ALERTS},
    }
    for kind in ("job", "sensor"):
        of_tables = {name.removesuffix("orders") for name in found[kind] if name.endswith("_orders")}
        found[kind] |= {f"{name}{table}" for name in of_tables for table in ("<table>", "payments")}
    return found


def texts(page: Page) -> Iterator[str]:
    """The text of each paragraph, heading and cell."""
    for token in page.tokens:
        if token.type == "inline":
            yield " ".join(token.content.split())


def exists(pattern: str) -> bool:
    """Whether a command, an option, a setting or a job has a name of this pattern."""
    named = {" ".join((*words, option)) for words, options in OPTIONS.items() for option in ("", *options)}
    named |= {name.strip() for name in named} | {f"incload_{field}" for field in Settings.model_fields}
    return any(re.search(pattern, name, re.IGNORECASE) for name in named | there()["job"])


@each_page
def test_settings_metrics_and_alerts_that_a_page_names_are_there(page: Page) -> None:
    known = {f"INCLOAD_{field.upper()}" for field in Settings.model_fields}
    text = page.text.replace("<NAME>", "NAME")
    settings = {name for name in re.findall(r"INCLOAD_\w*[A-Z0-9]", text) if not ENVIRONMENT.fullmatch(name)}
    metrics = set(re.findall(r"\bincload_(?!assets|reader)\w+", text))
    alerts = set(re.findall(r"\bIncload[A-Z]\w+", text))
    assert (settings - known, metrics - there()["metric"], alerts - there()["alert"]) == (set(), set(), set())


@each_page
def test_jobs_sensors_schedules_and_checks_that_a_page_names_are_there(page: Page) -> None:
    every = set().union(*there().values()) | OF_THE_READER
    wrong = []
    for text in texts(page):
        for kind, names in NAMED.findall(text):
            first, *others = [name for name in re.findall("`([^`]+)`", names) if re.fullmatch(r"[\w<>]+", name)] or [""]
            wrong += [first] if first and first not in there()[kind.lower()] | OF_THE_READER else []
            wrong += [name for name in others if name not in every]
    assert wrong == []


@each_page
def test_options_that_a_page_names_are_there(page: Page) -> None:
    """With their command where that is named, too; a whole command line is read by another test."""
    wrong = []
    for code in page.code:
        words = code.partition("…")[0].split()
        if words[:1] == ["incload"] and "…" in code:
            at = max(n for n in range(len(words) + 1) if tuple(words[1:n]) in OPTIONS)
            wrong += [word for word in words[at:] if word.startswith("--") and word not in OPTIONS[tuple(words[1:at])]]
        elif code.startswith("--"):
            wrong += [word for word in words if word.startswith("--") and not exists(f" {word}$")]
    assert wrong == []


def test_what_pages_say_is_not_there_is_not() -> None:
    claims = {claim.strip() for page in PAGES for text in texts(page) for claim in CLAIM.findall(text)}
    assert claims ^ ABSENT.keys() == set(), "say in ABSENT what each is about"
    assert [claim for claim, about in ABSENT.items() if exists(about)] == []


@pytest.mark.parametrize(
    ("sentence", "about"),
    [
        ("**Remedy.** There is no command for it yet. By hand, in this order:", "eras"),
        ("Not available: erasure of one person's data from tables, logs and old versions.", "eras"),
        ("Deleting is done by hand, and needs the table to be paused:", "^pause$"),
        ("Widening is not supported.", "evolution"),
        ("There is no option for a look before.", "^undo --plan$"),
    ],
)
def test_a_sentence_that_says_that_something_is_missing_which_is_there_is_found(sentence: str, about: str) -> None:
    assert CLAIM.search(sentence) and exists(about)

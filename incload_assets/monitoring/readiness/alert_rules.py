"""The alert rules that are in use: in a folder that was rendered, or in a running Prometheus."""

import json
import re
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError

import yaml

from incload_assets.platform.errors import IncrementalLoadError

FILE = "rules.yaml"
SECONDS = 10
_OF_TABLE = re.compile(r'\btable\s*(=~|!=|!~|=)\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """A rule of Prometheus that raises an alert, with the labels that it gives the alert."""

    name: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def covers(self, table: str) -> bool:
        """True if it watches a table: it names the table, or no table at all.

        Example:
            >>> AlertRule(name="Late", expression='incload_late{table="orders"} > 0').covers("customers")
            False
        """
        if "incload_" not in self.expression or self._named not in (None, table):
            return False
        return all(_matches(operator, value, table) for operator, value in _OF_TABLE.findall(self.expression))

    @property
    def names_tables(self) -> bool:
        """True if it is for tables that it names, not for whatever table there is."""
        return self._named is not None or _OF_TABLE.search(self.expression) is not None

    @property
    def _named(self) -> str | None:
        """The table in its labels; None if there is none, or a template that the series fill."""
        name = self.labels.get("table")
        return None if name is None or "{{" in name else name


def _matches(operator: str, value: str, table: str) -> bool:
    said = value.replace("\\\\", "\\").replace('\\"', '"')
    equal = re.fullmatch(said, table) is not None if operator.endswith("~") else said == table
    return equal if operator.startswith("=") else not equal


def rules_in(folder: Path) -> list[AlertRule]:
    """The alert rules in a folder that ``incload monitoring render`` wrote.

    Raises:
        IncrementalLoadError: It has no ``rules.yaml``, or that is none of Prometheus's.
    """
    path = folder / FILE
    try:
        return _rules(yaml.safe_load(path.read_text(encoding="utf-8"))["groups"], "alert", "expr")
    except OSError as error:
        problem = f"{path} cannot be read ({type(error).__name__})"
    except (yaml.YAMLError, KeyError, TypeError):
        problem = f"{path} holds no rules of Prometheus"
    raise IncrementalLoadError(
        problem,
        rule="INCLOAD_MONITORING names the folder that incload monitoring render wrote",
        remedy="render again into that folder",
    )


def rules_at(url: str) -> list[AlertRule]:
    """The alert rules that the Prometheus at an address, for example ``http://localhost:9090``, has loaded.

    Raises:
        IncrementalLoadError: It does not answer, or something else answers.
    """
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/v1/rules?type=alert", timeout=SECONDS) as answer:
            return _rules(json.load(answer)["data"]["groups"], "name", "query")
    except (URLError, TimeoutError, OSError) as error:
        problem = f"Prometheus does not answer ({type(getattr(error, 'reason', error)).__name__})"
    except (ValueError, KeyError, TypeError):
        problem = "what answers is no Prometheus"
    raise IncrementalLoadError(
        problem,
        rule="INCLOAD_PROMETHEUS_URL is the address of the Prometheus that evaluates the rules",
        remedy="correct it, or start Prometheus",
    )


def _rules(groups: Iterable[Mapping[str, Any]], name: str, expression: str) -> list[AlertRule]:
    found: Sequence[Mapping[str, Any]] = [rule for group in groups for rule in group.get("rules") or () if name in rule]
    return [
        AlertRule(name=rule[name], expression=str(rule[expression]), labels=rule.get("labels") or {}) for rule in found
    ]

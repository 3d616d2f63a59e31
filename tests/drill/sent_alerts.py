"""The alerts that a drill's Alertmanager has sent: which receiver has which one, and whether it should have it."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.drill.faults import Fault


class Alerts:
    """The alerts on a table that Alertmanager has sent, by webhooks of its receivers.

    Args:
        owners: The receivers of the table's owners.
    """

    def __init__(self, owners: Iterable[str]) -> None:
        self._owners = {*owners}
        self._firing: dict[tuple[str, str], str] = {}
        self._heard: dict[str, dict[str, float]] = defaultdict(dict)
        self._receivers: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def take(self, message: dict[str, Any]) -> None:
        """Takes a notification.

        Raises:
            AssertionError: Its alerts are not of one table and cause.
        """
        receiver, group = message["receiver"], message["groupLabels"]
        with self._lock:
            for alert in message["alerts"]:
                name, labels = alert["labels"]["alertname"], alert["labels"]
                expected = {label: labels[label] for label in ("table", "cause") if label in labels}
                assert group == expected, f"{receiver} was sent {name} in a group of {group}"
                self._receivers[name] = self._owners | ({"page"} if labels["severity"] == "page" else set())
                if alert["status"] == "firing":
                    self._heard[name][receiver] = time.monotonic()
                    self._firing[receiver, alert["fingerprint"]] = name
                else:
                    self._firing.pop((receiver, alert["fingerprint"]), None)

    def firing(self, fault: Fault[Any]) -> list[str]:
        """The names of the alerts on a fault that fire now, for one of their receivers at least."""
        with self._lock:
            return sorted({*self._firing.values()} & {*fault.alerts})

    def heard(self, fault: Fault[Any], since: float) -> dict[str, float]:
        """When the last receiver of an alert on a fault was sent it, since an instant of the monotonic clock, by name.

        Pages are for the table's owners and the channel for pages, tickets for the owners. An alert that lacks one of
        them, or came to another, was not heard.
        """
        with self._lock:
            sent = {name: {r: at for r, at in self._heard[name].items() if at >= since} for name in fault.alerts}
            return {
                name: max(those.values()) for name, those in sent.items() if those and {*those} == self._receivers[name]
            }

    def receivers(self, names: Iterable[str]) -> list[str]:
        """The receivers of alerts."""
        with self._lock:
            return sorted({receiver for name in names for receiver in self._receivers[name]})

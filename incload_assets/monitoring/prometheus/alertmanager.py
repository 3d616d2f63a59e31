"""Alertmanager's configuration, from the declarations: who is notified of what, and which alerts silence others."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from incload_assets.declaration.table import Table
from incload_assets.monitoring.prometheus.alerts import ALERTS, SILENCED
from incload_assets.monitoring.prometheus.rules import any_of

STALENESS = ("late", "news", "budget", "sensor", "gaps")
"""The causes of alerts that say that a table is not up to date."""
DEAD_MAN = "IncloadDeadManSwitch"


@dataclass(frozen=True, kw_only=True)
class Channels:
    """The receivers of Alertmanager. No secret is part of it: secrets are in files that Alertmanager reads.

    Args:
        slack_api_url_file: File with the address of a webhook that Slack, or something compatible, offers.
        page, ticket: Channels for pages, and for tickets on tables without owners.
        smarthost: Host and port of the mail server.
        dead_man_url: What the dead man's switch calls, without a secret; None: nothing yet.
    """

    slack_api_url_file: str = "/etc/alertmanager/slack_api_url"
    page: str = "#incload-page"
    ticket: str = "#incload-ticket"
    smarthost: str = "localhost:25"
    email_from: str = "incload@localhost"
    dead_man_url: str | None = None


def alertmanager(tables: Iterable[Table], channels: Channels = Channels()) -> dict[str, Any]:
    """The content of Alertmanager's configuration.

    Pages go to the channel for pages, and to the owners of the table. Tickets go to the owners, or else to the channel
    for tickets. Owners are e-mail addresses, or teams, ``team:data``, whose channel is ``#data``.
    """
    owned: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        for owner in table.owners:
            owned[owner].append(table.name)
    owners = [
        {"receiver": _receiver_of(owner), "matchers": [f'table=~"{any_of(names)}"'], "continue": True}
        for owner, names in sorted(owned.items())
    ]
    dead_man = [{"url": channels.dead_man_url, "send_resolved": False}] if channels.dead_man_url else None
    return {
        "global": {
            "slack_api_url_file": channels.slack_api_url_file,
            "smtp_smarthost": channels.smarthost,
            "smtp_from": channels.email_from,
        },
        "route": {
            "receiver": "ticket",
            "group_by": ["table", "cause"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
            "routes": [
                {
                    "receiver": "dead-man",
                    "matchers": [f'alertname="{DEAD_MAN}"'],
                    "group_wait": "0s",
                    "group_interval": "1m",
                    "repeat_interval": "5m",
                },
                {"receiver": "nobody", "matchers": ['severity="none"']},
                {
                    "receiver": "page",
                    "matchers": ['severity="page"'],
                    "group_wait": "10s",
                    "repeat_interval": "1h",
                    "routes": [*owners, {"receiver": "page"}],
                },
                {
                    "receiver": "ticket",
                    "matchers": ['severity="ticket"'],
                    "repeat_interval": "1d",
                    "routes": owners,
                },
            ],
        },
        "inhibit_rules": _inhibitions(),
        "receivers": [
            {"name": "nobody"},
            {"name": "dead-man"} | ({"webhook_configs": dead_man} if dead_man else {}),
            {"name": "page", "slack_configs": [_slack(channels.page)]},
            {"name": "ticket", "slack_configs": [_slack(channels.ticket)]},
            *(_owner(owner) for owner in sorted(owned)),
        ],
    }


def _receiver_of(owner: str) -> str:
    return f"owner {owner}"


def _owner(owner: str) -> dict[str, Any]:
    if owner.startswith("team:"):
        channel = re.sub(r"[^\w-]+", "-", owner.removeprefix("team:").lower())
        return {"name": _receiver_of(owner), "slack_configs": [_slack(f"#{channel}")]}
    return {"name": _receiver_of(owner), "email_configs": [{"to": owner, "send_resolved": True}]}


def _slack(channel: str) -> Mapping[str, Any]:
    return {
        "channel": channel,
        "send_resolved": True,
        "title": "{{ .Status | toUpper }}: {{ .CommonLabels.alertname }} {{ .CommonLabels.table }}",
        "text": "{{ range .Alerts }}{{ .Annotations.description }}\n{{ .Annotations.runbook }}\n{{ end }}",
    }


def _inhibitions() -> Sequence[dict[str, Any]]:
    """The rules by which alerts are not sent while others are raised."""
    stale = f'cause=~"{"|".join(STALENESS)}"'
    names, told = {alert.name for alert in ALERTS}, f'alertname!~"{"|".join([DEAD_MAN, *(a.name for a in SILENCED)])}"'
    found = [
        _inhibit(
            ["IncloadSourceDown"], [f'cause=~"{"|".join((*STALENESS, "errors", "source-files", "clock"))}"'], ["table"]
        ),
        _inhibit(["IncloadTableLate"], ['cause=~"news|gaps"'], ["table"]),
        _inhibit(["IncloadExporterDown", "IncloadStorageDown", "IncloadDaemonDown"], [stale], []),
        _inhibit(["IncloadSparkGone"], [f'cause=~"{"|".join((*STALENESS, "errors"))}"'], []),
        _inhibit(["IncloadSilenced"], [told], ["table"]),
        _inhibit(["IncloadAllSilenced"], [told], []),
        {"source_matchers": ['severity="page"'], "target_matchers": ['severity="ticket"'], "equal": ["table", "cause"]},
    ]
    assert all(name in names for rule in found for name in re.findall(r"Incload\w+", str(rule["source_matchers"])))
    return found


def _inhibit(alerts: Sequence[str], targets: Sequence[str], equal: Sequence[str]) -> dict[str, Any]:
    rule = {"source_matchers": [f'alertname=~"{"|".join(alerts)}"'], "target_matchers": [*targets]}
    return rule | ({"equal": [*equal]} if equal else {})

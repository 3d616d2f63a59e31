"""The channels to which messages about tables go: Slack, a webhook, e-mail; each where the settings name it.

Addresses and passwords are secrets: they are looked up when a message is sent, and no error of a channel quotes them.
"""

import json
import smtplib
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from functools import partial
from typing import Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pydantic import SecretStr

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked
from incload_assets.platform.secret_store import resolved
from incload_assets.platform.settings import Settings

State = Literal["late", "failed", "repaired"]
LIMIT_SECONDS = 5.0
"""Longest time to wait for an answer of a channel."""
SHOWN = 50
"""Most notices that a message spells out."""
_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A message about a table: it is late, has failed (windows wait for a person) or is repaired, and what to do."""

    table: str
    state: State
    text: str


Send = Callable[[Sequence[Notice]], None]


def channels(settings: Settings) -> Mapping[str, Send]:
    """The channels that the settings name, by kind; each sends some notices as one message, or raises."""
    found: dict[str, Send] = {}
    if settings.notify_slack_url:
        found["slack"] = partial(_slack, settings.notify_slack_url)
    if settings.notify_webhook_url:
        found["webhook"] = partial(_webhook, settings.notify_webhook_url)
    if settings.notify_email.strip():
        found["e-mail"] = partial(_email, settings)
    return found


def described(error: Exception) -> str:
    """An error of a channel for a log: of foreign ones only the kind, because their messages may quote secrets."""
    if isinstance(error, IncrementalLoadError):
        return masked(str(error))
    answer = f" {error.code}" if isinstance(error, HTTPError) else ""
    return f"{type(error).__name__}{answer}. Remedy: check the address and the credentials of this channel"


def subject(notices: Sequence[Notice]) -> str:
    """The first line of a message, for example ``incload: 1 late: orders``."""
    parts = []
    for state in ("failed", "late", "repaired"):
        if names := [one.table for one in notices if one.state == state]:
            parts.append(f"{len(names)} {state}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}")
    return f"incload: {'; '.join(parts)}"


def _text(notices: Sequence[Notice]) -> str:
    lines = [f"- {one.table} {one.state}: {one.text}" for one in notices[:SHOWN]]
    more = len(notices) - SHOWN
    return "\n".join([subject(notices), *lines, *([f"{more} more, see incload status"] if more > 0 else [])])


def _slack(url: SecretStr, notices: Sequence[Notice]) -> None:
    text = _text(notices)
    for character, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, written)
    _post(url, {"text": text})


def _webhook(url: SecretStr, notices: Sequence[Notice]) -> None:
    _post(url, {"text": _text(notices), "notices": [asdict(one) for one in notices]})


class _NoRedirect(HTTPRedirectHandler):
    """A redirection is an error: the message would be lost on the way, as it is not posted again."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _post(url: SecretStr, body: Mapping[str, object]) -> None:
    headers = {"Content-Type": "application/json"}
    request = Request(resolved(url.get_secret_value()), json.dumps(body).encode(), headers, method="POST")
    with build_opener(_NoRedirect).open(request, timeout=LIMIT_SECONDS) as answer:
        answer.read(1)


def _email(settings: Settings, notices: Sequence[Notice]) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = subject(notices), settings.notify_from, settings.notify_email
    message.set_content(_text(notices))
    server = urlsplit(settings.notify_smtp)
    host, context = server.hostname or "localhost", ssl.create_default_context()
    with (
        smtplib.SMTP_SSL(host, server.port or 465, timeout=LIMIT_SECONDS, context=context)
        if server.scheme == "smtps"
        else smtplib.SMTP(host, server.port or 25, timeout=LIMIT_SECONDS)
    ) as mail:
        mail.ehlo()
        secure = server.scheme == "smtps" or mail.has_extn("starttls")
        if server.scheme == "smtp" and secure:
            mail.starttls(context=context)
        if settings.notify_smtp_password:
            if not secure and host not in _HERE:
                raise IncrementalLoadError(
                    f"the mail server {host} offers no TLS",
                    rule="a password is not sent in clear",
                    remedy="smtps://… in INCLOAD_NOTIFY_SMTP, or a server with STARTTLS",
                )
            mail.login(server.username or "", resolved(settings.notify_smtp_password.get_secret_value()))
        mail.send_message(message)

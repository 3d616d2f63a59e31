"""Schema registries by name, from the environment: schemas by id over the HTTP protocol that Confluent has published.

A schema has its id for ever, so each process asks for an id once. Apicurio's registry speaks the same protocol below
``/apis/ccompat/v7``.
"""

import json
import os
import re
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from threading import Lock
from typing import Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from incload_assets.platform.errors import SourceUnavailable, SourceUnreadable
from incload_assets.platform.secret import secret

NAME = re.compile(r"[a-z][a-z0-9_]*")
REQUEST_SECONDS = 10
ATTEMPTS = 3
_PAUSE_SECONDS = 0.5
_MOST_BYTES = 16 * 2**20
"""Largest size of an answer; a schema has a few kilobytes."""
_MOST_REFERENCES = 500
"""Largest number of schemas that a schema refers to, directly or not."""
_REFUSED, _UNKNOWN, _BUSY = (401, 403), 404, (408, 429, 500, 502, 503, 504)

_known: "dict[tuple[str, int], Schema]" = {}
_asking: dict[tuple[str, int], Lock] = {}
"""A lock for each id, so that a registry that hangs holds up nobody else."""


@dataclass(frozen=True)
class Schema:
    """A schema of a registry.

    Args:
        text: In the notation of its kind.
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        references: The texts of the schemas that it refers to, each before those that refer to it.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class SchemaRegistry:
    """The address of a schema registry and how it knows the loader; neither is ever shown.

    ``authorities`` is a PEM file with the authorities to trust in place of the machine's.
    """

    name: str
    url: str = field(repr=False)
    authorization: str = field(default="", repr=False)
    authorities: str = ""

    @classmethod
    def named(cls, name: str) -> "SchemaRegistry":
        """The registry that the environment configures for a name.

        ``INCLOAD_REGISTRY_<NAME>_URL`` is its address; ``…_USER`` and ``…_PASSWORD`` or else ``…_TOKEN`` are the
        account, ``…_PASSWORD_FILE`` and ``…_TOKEN_FILE`` name files with them instead; ``…_CA`` names a file with the
        authorities to trust. Raises SourceUnreadable, which shows no value, and SourceUnavailable.
        """
        prefix = f"INCLOAD_REGISTRY_{name.upper()}_"
        url, user = os.environ.get(f"{prefix}URL", "").strip().rstrip("/"), os.environ.get(f"{prefix}USER", "")
        if not url:
            raise _wrong(name, f"{prefix}URL is not set")
        try:
            parts = urlsplit(url)
            fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        except ValueError:
            fine = False
        if not fine or parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
            raise _wrong(name, f"{prefix}URL is no http address")
        if parts.username or parts.password:
            raise _wrong(name, f"{prefix}URL holds an account", f"accounts belong in {prefix}USER and {prefix}PASSWORD")
        try:
            password, token = secret(f"{prefix}PASSWORD"), secret(f"{prefix}TOKEN")
        except ValueError as error:
            raise _wrong(name, str(error)) from None
        if token and (user or password):
            raise _wrong(name, f"{prefix}TOKEN and {prefix}USER or {prefix}PASSWORD are set")
        if bool(user) != bool(password):
            raise _wrong(name, f"of {prefix}USER and {prefix}PASSWORD only one is set")
        if (token and not re.fullmatch("[!-~]+", token)) or ":" in user:
            odd = "TOKEN has a character that no header can have" if token else "USER has a colon"
            raise _wrong(name, f"{prefix}{odd}")
        account = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}" if user else ""
        return cls(name, url, f"Bearer {token}" if token else account, os.environ.get(f"{prefix}CA", ""))

    def schema(self, number: int, used_in: str) -> Schema:
        """The schema with an id; ``used_in`` describes, for messages, the table and its messages with that id.

        Raises SourceUnreadable if the registry lacks the id or refuses, SourceUnavailable if it does not answer.
        """
        place = (self.url, number)
        with _asking.setdefault(place, Lock()):
            known = _known.get(place)
            if known is None:
                found = self._asked(f"/schemas/ids/{number}", f"id {number}", used_in)
                references = tuple(self._references(found, set(), used_in))
                kind = str(found.get("schemaType") or "AVRO").upper()
                known = _known[place] = Schema(found["schema"], kind, references)
        return known

    def _references(self, found: Mapping[str, Any], asked: set[tuple[str, str]], used_in: str) -> Iterator[str]:
        """The texts of the schemas that an answer refers to, each after the schemas that it needs itself."""
        for one in found.get("references") or ():
            place = (str(one["subject"]), str(one["version"]))
            if place in asked:
                continue
            asked.add(place)
            if len(asked) > _MOST_REFERENCES:
                raise SourceUnreadable(
                    f"{used_in}: its schema refers to more than {_MOST_REFERENCES} others",
                    rule=f"the schema registry {self.name!r} is asked for each of them",
                    remedy="register the schema in one piece",
                )
            subject, version = (quote(part, safe="") for part in place)
            what = f"version {place[1]} of the subject {place[0]!r}"
            inner = self._asked(f"/subjects/{subject}/versions/{version}", what, used_in)
            yield from self._references(inner, asked, used_in)
            yield inner["schema"]

    def _asked(self, path: str, what: str, used_in: str) -> dict[str, Any]:
        """The answer to a request, as JSON with a member ``schema``; a busy registry is asked a few times."""
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        opener = build_opener(_NoRedirects, HTTPSHandler(context=self._trust()))
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_SECONDS * attempt)
            try:
                with opener.open(Request(self.url + path, headers=headers), timeout=REQUEST_SECONDS) as answer:
                    return self._parsed(answer.read(_MOST_BYTES), used_in)
            except HTTPError as error:
                error.close()
                if error.code not in _BUSY:
                    self._refuse(error.code, what, used_in)
                why = f"status {error.code}"
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise SourceUnreadable(
                        f"{used_in}: the certificate of the schema registry {self.name!r} is not trusted",
                        rule="it is signed by an authority that this machine trusts, and names the registry's host",
                        remedy=f"name a file with the certificate of its authority in {self._variable('CA')}",
                    ) from None
                why = type(reason).__name__  # texts may quote the address
        raise SourceUnavailable(
            f"{used_in}: the schema registry {self.name!r} does not answer ({why})",
            rule="messages are read by the schema with which they were written, or not at all",
            remedy="none if it comes back: the load is tried again; else check the network and "
            f"{self._variable('URL')}",
        )

    def _parsed(self, body: bytes, used_in: str) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        references = found.get("references") if isinstance(found, dict) else None
        named = all(isinstance(one, dict) and {"subject", "version"} <= one.keys() for one in references or ())
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str) or not named:
            raise SourceUnreadable(
                f"{used_in}: the answer of the schema registry {self.name!r} is none of a schema registry",
                rule=f"GET {self._variable('URL')}/schemas/ids/1 answers with a JSON object that has a schema",
                remedy="correct the address; Apicurio's ends in /apis/ccompat/v7",
            )
        return found

    def _refuse(self, status: int, what: str, used_in: str) -> NoReturn:
        registry = f"the schema registry {self.name!r}"
        if status in _REFUSED:
            account = ", ".join(self._variable(part) for part in ("USER", "PASSWORD", "TOKEN"))
            raise SourceUnreadable(
                f"{used_in}: {registry} refuses the account (status {status})",
                rule="the account may read schemas",
                remedy=f"check {account}",
            )
        if status == _UNKNOWN:
            raise SourceUnreadable(
                f"{used_in}: {registry} has no {what}",
                rule="messages are read by the schema with which they were written, or not at all",
                remedy=f"check that {self._variable('URL')} is the registry that the producer uses; if the schema was "
                "deleted for good, restore it there",
            )
        raise SourceUnreadable(
            f"{used_in}: {registry} answers with status {status}, which a schema registry does not",
            rule="redirections are not followed, because the account would go along",
            remedy=f"correct {self._variable('URL')}",
        )

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.authorities or None)
        except (OSError, ssl.SSLError) as error:
            raise _wrong(
                self.name, f"the file of {self._variable('CA')} cannot be read ({type(error).__name__})"
            ) from None

    def _variable(self, part: str) -> str:
        return f"INCLOAD_REGISTRY_{self.name.upper()}_{part}"


def forget() -> None:
    """Makes the next use of each id ask for it again."""
    _known.clear()


class _NoRedirects(HTTPRedirectHandler):
    """A handler by which a redirection is an error: it would take the account to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _wrong(name: str, problem: str, rule: str = "") -> Exception:
    prefix = f"INCLOAD_REGISTRY_{name.upper()}_"
    return SourceUnreadable(
        f"schema registry {name!r}: {problem}",
        rule=rule
        or f"{prefix}URL is http://host:port/path; {prefix}USER and {prefix}PASSWORD, or {prefix}TOKEN, are "
        f"the account, if it wants one; {prefix}CA is a PEM file",
        remedy="set them where the code location runs",
    )

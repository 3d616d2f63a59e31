"""Keys for the protection of personal values, by name, from the environment or a file."""

import os
import re
from hashlib import sha256
from pathlib import Path

from resources.errors import SourceUnavailable

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The form of a key's name."""
SHORTEST = 32
"""Fewest characters of a key."""


def protection_key(name: str) -> bytes:
    """The key of a name: ``INCLOAD_KEY_<NAME>``, or the content of the file that ``INCLOAD_KEY_<NAME>_FILE`` names.

    Raises:
        SourceUnavailable: There is none, both are given, the file cannot be read, or the key is too short; the key is
            not shown.

    Example:
        >>> # INCLOAD_KEY_CRM_FILE=/run/secrets/crm
        >>> len(protection_key("crm"))  # doctest: +SKIP
        64
    """
    variable = f"INCLOAD_KEY_{name.upper()}"
    given, file = os.environ.get(variable, ""), os.environ.get(f"{variable}_FILE", "")
    if bool(given) == bool(file):
        raise _wrong(name, f"{variable} and {variable}_FILE are {'both' if given else 'not'} set")
    if file:
        try:
            given = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _wrong(name, f"the file of {variable}_FILE cannot be read ({type(error).__name__})") from None
    if len(given) < SHORTEST:
        raise _wrong(name, f"{variable} has {len(given)} characters")
    return given.encode()


def key_id(key: bytes) -> str:
    """An identifier of a key that does not reveal it: 8 hexadecimal digits."""
    return sha256(b"incload key " + key).hexdigest()[:8]


def _wrong(name: str, problem: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"key {name!r} for personal values: {problem}",
        rule=f"a key has at least {SHORTEST} characters, and one place",
        remedy=f"make one with `openssl rand -hex 32`, and give it as INCLOAD_KEY_{name.upper()}, or in a file that "
        f"INCLOAD_KEY_{name.upper()}_FILE names; keep it, as another key makes other tokens",
    )

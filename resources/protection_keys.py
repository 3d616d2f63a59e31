"""Keys for the protection of personal values, by name, from the environment or a file."""

import re
from hashlib import sha256

from resources.errors import SourceUnreadable
from resources.secret import secret

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The form of a key's name."""
SHORTEST = 32
"""Fewest characters of a key."""


def protection_key(name: str) -> bytes:
    """The key of a name: ``INCLOAD_KEY_<NAME>``, or the content of the file that ``INCLOAD_KEY_<NAME>_FILE`` names.

    Raises:
        SourceUnreadable: There is none, both are given, the file cannot be read, or the key is too short; the key is
            not shown.

    Example:
        >>> # INCLOAD_KEY_CRM_FILE=/run/secrets/crm
        >>> len(protection_key("crm"))  # doctest: +SKIP
        64
    """
    variable = f"INCLOAD_KEY_{name.upper()}"
    try:
        key = secret(variable)
    except ValueError as error:
        raise _wrong(name, variable, str(error)) from None
    if not key:
        raise _wrong(name, variable, f"neither {variable} nor {variable}_FILE is set")
    if len(key) < SHORTEST:
        raise _wrong(name, variable, f"it has {len(key)} characters")
    return key.encode()


def key_id(key: bytes) -> str:
    """An identifier of a key that does not reveal it: 8 hexadecimal digits."""
    return sha256(b"incload key " + key).hexdigest()[:8]


def _wrong(name: str, variable: str, problem: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"key {name!r} for personal values: {problem}",
        rule=f"a key has at least {SHORTEST} characters, and one place",
        remedy=f"make one with `openssl rand -hex 32`, and give it as {variable}, or in a file that {variable}_FILE "
        "names; keep it, as another key makes other tokens",
    )

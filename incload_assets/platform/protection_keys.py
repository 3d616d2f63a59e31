"""Keys for the protection of personal values, by name, from the environment or a file."""

import base64
import hmac
import os
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.secret import secret
from incload_assets.platform.settings import Settings

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The form of a key's name."""
ERASURE = "erasure"
"""The name of the key under which the fingerprints of erased subjects are made."""
TOKENIZED, ENCRYPTED = "t", "e"
"""The marks after the key's prefix: of values encrypted alike for everybody, and for one person."""
SEALING_KEY, SEALING_NONCE = b"\xffkey\xff", b"\xffnonce\xff"
"""The purposes for which keys and nonces are derived; no text in UTF-8 begins so, and so no value that is hashed."""
NONCE_BYTES = 12
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


def erasure_key(*, create: bool = False) -> bytes:
    """The key of erasures: ``INCLOAD_KEY_ERASURE`` as for other keys; without it a key that was made on this machine.

    Args:
        create: Whether to make a key in ``<home>/keys`` if there is none.

    Raises:
        SourceUnreadable: There is none, or it cannot be read.
    """
    variable = f"INCLOAD_KEY_{ERASURE.upper()}"
    if os.environ.get(variable) or os.environ.get(f"{variable}_FILE"):
        return protection_key(ERASURE)
    file = own_erasure_key()
    if create and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.write(secrets.token_hex(SHORTEST))
    try:
        return file.read_bytes()
    except OSError as error:
        problem = f"{variable} is not set, and {file} cannot be read ({type(error).__name__})"
        raise _wrong(ERASURE, variable, problem) from None


def own_erasure_key() -> Path:
    """The file with the key of erasures that was made on this machine."""
    return Settings().home_root / "keys" / ERASURE


def token_prefix(name: str, key: bytes) -> str:
    """The beginning of all tokens under a key: the key's name, its identifier and a colon."""
    return f"{name}-{key_id(key)}:"


def token(name: str, key: bytes, value: str) -> str:
    """The token of a value: its HMAC-SHA-256 under a key, after the key's prefix; made without Spark."""
    return token_prefix(name, key) + hmac.digest(key, value.encode(), "sha256").hex()


def sealing(purpose: bytes, name: str) -> bytes:
    """The beginning of a message from which a key or a nonce is derived.

    Args:
        purpose: :data:`SEALING_KEY` or :data:`SEALING_NONCE`.
        name: The key's name.
    """
    return purpose + name.encode() + b"\xff"


def sealed(name: str, key: bytes, value: str) -> str:
    """A value encrypted so that equal values stay equal, after the key's prefix; made without Spark.

    AES-256-GCM, whose nonce is derived from the value, so that practically no two values share one (the idea of a
    synthetic initialisation vector, RFC 5297). Key and nonce are HMAC-SHA-256 under the key given.

    Args:
        name: The key's name.
        key: The key.
        value: The value.
    """
    plain = value.encode()
    nonce = hmac.digest(key, sealing(SEALING_NONCE, name) + plain, "sha256")[:NONCE_BYTES]
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # a tenth of a second, for tables with tokens alone

    box = nonce + AESGCM(hmac.digest(key, sealing(SEALING_KEY, name), "sha256")).encrypt(nonce, plain, None)
    return f"{token_prefix(name, key)}{TOKENIZED}.{base64.urlsafe_b64encode(box).decode().rstrip('=')}"


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

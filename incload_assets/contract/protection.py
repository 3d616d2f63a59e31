"""Protection of personal values on extraction: replaced by tokens, encrypted, masked, or dropped.

A contract declares it by field, ``metadata={"personal": Hashed(key="crm")}``. The values themselves reach neither the
table nor its log.
"""

import re
from dataclasses import dataclass

from incload_assets.platform.protection_keys import ENCRYPTED, NAME, TOKENIZED

UNENCRYPTED = "cannot be encrypted"
"""A part of the reason for which a value without a person's key is rejected, and that nobody can waive."""


@dataclass(frozen=True)
class _UnderKey:
    """Values replaced under a key that a secret store keeps.

    Args:
        key: The key's name, see :func:`incload_assets.platform.protection_keys.protection_key`.

    Raises:
        ValueError: It is no name.
    """

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not NAME.fullmatch(self.key):
            name = type(self).__name__
            raise ValueError(f"{name}(key={self.key!r}): a key's name is letters, digits and _, in lower case")

    def _form(self, what_follows: str) -> str:
        return rf"{re.escape(self.key)}-[0-9a-f]{{8}}:{what_follows}"


class Hashed(_UnderKey):
    """Values replaced by tokens: their HMAC-SHA-256 under a key that a secret store keeps.

    Equal values have equal tokens in all tables with the same key, so keys and joins work on tokens. A token is
    ``<key>-<id of the key>:<64 hexadecimal digits>``; a value that has this form already stays as it is. Nobody can
    turn a token into its value again.
    """

    @property
    def form(self) -> str:
        """A regular expression that tokens match as a whole, in Java and in Python."""
        return self._form("[0-9a-f]{64}")


class Tokenized(_UnderKey):
    """Values replaced by tokens, as by :class:`Hashed`, which whoever has the key can turn into the values again.

    A token is ``<key>-<id of the key>:t.<base64>``: the value encrypted so that equal values have equal tokens, see
    :func:`incload_assets.platform.protection_keys.sealed`.
    """

    @property
    def form(self) -> str:
        """A regular expression that tokens match as a whole, in Java and in Python."""
        return self._form(rf"{TOKENIZED}\.[A-Za-z0-9_-]+")


class Encrypted(_UnderKey):
    """Values encrypted under a key of the person whose row it is: without that key nobody can read them.

    The table says whose a row is by ``subject``. The person's key is made of the key that a secret store keeps and of
    a secret of the person, see :mod:`incload_assets.protection.person_keys`. Equal values of one person are encrypted
    alike, equal values of two persons are not. A kept value is
    ``<key>-<id of the key>:e.<id of the person>.<base64>``; the person's id is random.
    """

    @property
    def form(self) -> str:
        """A regular expression that encrypted values match as a whole, in Java and in Python."""
        return self._form(rf"{ENCRYPTED}\.[0-9a-f]{{24}}\.[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Masked:
    """Values replaced by ``****`` and their last characters; values that are not longer, by ``****`` alone.

    Args:
        keep: Number of characters that stay.

    Raises:
        ValueError: It is no number from 0 to 8.
    """

    keep: int = 0

    def __post_init__(self) -> None:
        if type(self.keep) is not int or not 0 <= self.keep <= 8:
            raise ValueError(f"Masked(keep={self.keep!r}): from 0 to 8 characters may stay")

    @property
    def form(self) -> str:
        """A regular expression that masked values match as a whole."""
        return rf"(?s)\*{{4}}(.{{{self.keep}}})?"


@dataclass(frozen=True)
class Dropped:
    """Values left out: the column is NULL."""


@dataclass(frozen=True)
class InClear:
    """Personal values that stay in clear on purpose: masked wherever people look, and not protected.

    Rejected rows then keep their whole records, and fields that are not declared keep their values, too.

    Args:
        because: Why, for ``incload ready``.

    Raises:
        ValueError: No reason is given.
    """

    because: str

    def __post_init__(self) -> None:
        if not isinstance(self.because, str) or not self.because.strip():
            raise ValueError(f"InClear(because={self.because!r}): say why the values stay in clear")


Tokens = Hashed | Tokenized
"""Protections under which equal values stay equal, in all tables."""
Sealed = Tokenized | Encrypted
"""Protections whose values can be read again by whoever has the key."""
Protection = Tokens | Encrypted | Masked | Dropped

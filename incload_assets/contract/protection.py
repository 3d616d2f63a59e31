"""Protection of personal values on extraction: hashed under a key, masked, or dropped.

A contract declares it by field, ``metadata={"personal": Hashed(key="crm")}``. The values themselves reach neither the
table nor its log.
"""

import re
from dataclasses import dataclass

from resources.protection_keys import NAME


@dataclass(frozen=True)
class Hashed:
    """Values replaced by tokens: their HMAC-SHA-256 under a key that a secret store keeps.

    Equal values have equal tokens in all tables with the same key, so keys and joins work on tokens. A token is
    ``<key>-<id of the key>:<64 hexadecimal digits>``; a value that has this form already stays as it is.

    Args:
        key: The key's name, see :func:`resources.protection_keys.protection_key`.

    Raises:
        ValueError: It is no name.
    """

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not NAME.fullmatch(self.key):
            raise ValueError(f"Hashed(key={self.key!r}): a key's name is letters, digits and _, in lower case")

    @property
    def form(self) -> str:
        """A regular expression that tokens match as a whole, in Java and in Python."""
        return rf"{re.escape(self.key)}-[0-9a-f]{{8}}:[0-9a-f]{{64}}"


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


Protection = Hashed | Masked | Dropped

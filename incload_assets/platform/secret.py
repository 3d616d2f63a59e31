"""Secrets from the environment, from files that the environment names, or from a secret store."""

import os
from pathlib import Path

from incload_assets.platform.secret_store import resolved


def secret(variable: str) -> str:
    """The value of a variable, or the content of the file that ``<variable>_FILE`` names; '' if neither is set.

    A value ``secret:NAME`` is looked up, see :mod:`incload_assets.platform.secret_store`.

    White space around the content is not part of it: editors and ``kubectl`` end files with a line end.

    Raises:
        ValueError: Both are set, the file cannot be read, or the secret cannot be had. The message names the
            variable and no value.

    Example:
        >>> # INCLOAD_DATABASE_SHOP_PASSWORD_FILE=/run/secrets/shop
        >>> secret("INCLOAD_DATABASE_SHOP_PASSWORD")  # doctest: +SKIP
        '…'
    """
    given, file = os.environ.get(variable, ""), os.environ.get(f"{variable}_FILE", "")
    if given and file:
        raise ValueError(f"{variable} and {variable}_FILE are both set")
    if not file:
        return resolved(given)
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file of {variable}_FILE cannot be read ({type(error).__name__})") from None

"""TLS to a Spark Connect server: a server that is not trusted is told at once, not tried again for ten minutes."""

import re
from typing import Any, cast

from pyspark.sql import SparkSession

from incload_assets.platform.failures import masked, not_installed

ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""The variable of gRPC that names a file with the certificates of the authorities to trust."""
_REFUSALS = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted, or has expired",
    "Hostname Verification Check failed": "its certificate is of another host",
    "WRONG_VERSION_NUMBER": "it speaks no TLS",
    "missing selected ALPN property": "it speaks no HTTP/2",
}
_REFUSAL = re.compile("|".join(_REFUSALS))


def refused_handshake(url: str, error: BaseException) -> Exception | None:
    """The error for a refused TLS handshake; None if the client's error is about something else.

    Args:
        url: Address of the server; its token is masked.
        error: The client's error.

    Example:
        >>> error = RuntimeError("Tls handshake failed: CERTIFICATE_VERIFY_FAILED")
        >>> str(refused_handshake("sc://spark.example:15002/;use_ssl=true", error))[:60]
        'the TLS handshake with the Spark server sc://spark.example:1'
    """
    found = _REFUSAL.search(str(error))
    if found is None:
        return None
    return not_installed(
        f"the TLS handshake with the Spark server {masked(url)} fails: {_REFUSALS[found[0]]}",
        rule=f"the server's certificate is signed by an authority in the file of {ROOTS}, or else by a public one, and "
        "names the host in INCLOAD_SPARK",
        remedy=f"set {ROOTS} to the file with the certificate of the server's authority where the code location runs",
    )


def set_retries(session: SparkSession, times: int | None = None) -> None:
    """Sets how often the client repeats a call that did not reach the server.

    A call that failed in the TLS handshake is not repeated.

    Args:
        session: The session.
        times: The number of repetitions, about a second apart; None: for about ten minutes.
    """
    # imported here: needs the client's extra packages
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class TrustingPolicy(DefaultPolicy):
        """The client's own policy, but for refused handshakes."""

        def can_retry(self, exception: BaseException) -> bool:
            """True if another attempt may succeed."""
            return not _REFUSAL.search(str(exception)) and super().can_retry(exception)

    policy = TrustingPolicy() if times is None else TrustingPolicy(max_retries=times, max_backoff=1000, jitter=100)
    cast(Any, session).client.set_retry_policies([policy])

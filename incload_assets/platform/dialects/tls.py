"""TLS of Python drivers that have no words of their own for what a client looks at."""

import ssl


def context_of(authority: str | None, mode: str) -> ssl.SSLContext:
    """The context of a client that trusts an authority (a file; None: the system's authorities).

    Args:
        authority: File with certificates, in PEM.
        mode: ``trust`` looks at nothing, ``verify-ca`` at the authority, ``verify-full`` at the name of the host, too.

    Raises:
        OSError: The file cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_NONE if mode == "trust" else ssl.CERT_REQUIRED
    return context

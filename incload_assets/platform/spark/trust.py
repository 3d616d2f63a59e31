"""Trust stores for Java: the authorities that this machine trusts, and those of a file."""

import hashlib
import os
import re
import ssl
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_PEM = re.compile(f"{ssl.PEM_HEADER}.+?{ssl.PEM_FOOTER}", re.DOTALL)
_PASSWORD = "changeit"  # Java's default: it protects no secret


def machines_authorities() -> list[bytes]:
    """The certificates (DER) of the authorities that this machine trusts."""
    return sorted(ssl.create_default_context().get_ca_certs(binary_form=True))


def trusting(store: Path) -> list[str]:
    """The options of a Java that trusts the authorities of a store.

    Example:
        >>> trusting(Path("/etc/own.p12"))[0]
        '-Djavax.net.ssl.trustStore=/etc/own.p12'
    """
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def store_with(authorities: Path, folder: Path) -> Path:
    """A trust store with the authorities of this machine and those of a file.

    The store is named after its content, so that a Java which was started with another content is noticed.

    Args:
        authorities: PEM file with certificates.
        folder: Folder for the store; created if needed.

    Raises:
        SparkUnavailable: The package that writes such stores is not installed.
    """
    return _stored(authorities.read_text("ascii"), folder)


@lru_cache(maxsize=4)
def _stored(own: str, folder: Path) -> Path:
    certificates = sorted({*machines_authorities(), *map(ssl.PEM_cert_to_DER_cert, _PEM.findall(own))})
    store = folder / f"trusted-{hashlib.sha256(b''.join(certificates)).hexdigest()[:12]}.p12"
    if not store.exists():
        folder.mkdir(parents=True, exist_ok=True)
        replace(store, trust_store(certificates), 0o644)
    return store


def trust_store(certificates: Iterable[bytes]) -> bytes:
    """The content of a trust store for Java with the given certificates (DER); unreadable certificates are left out."""
    # here: a tenth of a second that only a process that starts Java needs
    from cryptography import x509  # as said above
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,  # as said above
        pkcs12,  # as said above
    )
    from cryptography.utils import CryptographyDeprecationWarning  # as said above

    entries = []
    for number, certificate in enumerate(certificates):
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)  # old ones have an invalid serial number
            entries.append(pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(certificate), str(number).encode()))
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode()))


def replace(path: Path, content: bytes, mode: int) -> None:
    """Writes a file atomically, because another process may be about to use it."""
    draft = path.with_name(f"{path.name}-{os.getpid()}.draft")
    draft.write_bytes(content)
    draft.chmod(mode)
    draft.rename(path)

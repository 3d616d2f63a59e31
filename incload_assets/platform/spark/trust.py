"""Trust stores for Java: the authorities that this machine trusts, and the ones in a file."""

import hashlib
import re
import ssl
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from incload_assets.platform.whole_files import replace_file

_PEM = re.compile(f"{ssl.PEM_HEADER}.+?{ssl.PEM_FOOTER}", re.DOTALL)
_PASSWORD = "changeit"  # Java's default: it protects no secret


def machines_authorities() -> list[bytes]:
    """The certificates (DER) of the authorities that this machine trusts."""
    return sorted(ssl.create_default_context().get_ca_certs(binary_form=True))


def trusting(store: Path) -> list[str]:
    """The options of a Java that trusts the authorities of a store."""
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def store_with(authorities: Path, folder: Path) -> Path:
    """A trust store of this machine's authorities and a PEM file's, named after its content to make changes noticed."""
    return _stored(authorities.read_text("ascii"), folder)


@lru_cache(maxsize=4)
def _stored(own: str, folder: Path) -> Path:
    certificates = sorted({*machines_authorities(), *map(ssl.PEM_cert_to_DER_cert, _PEM.findall(own))})
    store = folder / f"trusted-{hashlib.sha256(b''.join(certificates)).hexdigest()[:12]}.p12"
    if not store.exists():
        replace_file(store, trust_store(certificates))
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

"""Certificates of this machine, by authorities that nobody trusts unless told to."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)
_SIGNS = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Authority:
    """A private authority.

    Args:
        folder: Where its files are.
        name: Of the authority, and of its files.

    Attributes:
        certificate: The file that a client has to trust.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = (
            self._draft(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
        )
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, *hosts: str, name: str = "server") -> tuple[Path, Path]:
        """A certificate of a server.

        Args:
            hosts: Names and addresses of the server; default this machine.
            name: Of the files.

        Returns:
            The file of the certificate, and the file of its key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_alternative(host) for host in hosts or ("127.0.0.1", "localhost")]
        signed = (
            self._draft(_named(name), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate, secret = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, secret

    def _draft(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        """What all certificates have; strict clients, as Python since 3.13, want to know whose key is whose."""
        now, own, signer = datetime.now(UTC), key.public_key(), self._key.public_key()
        draft = x509.CertificateBuilder(self._name, subject, own, x509.random_serial_number(), now - _DAY, now + _DAY)
        return draft.add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)

"""The S3 endpoint, from the environment variables that every AWS tool reads. Credentials are never read here."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from incload_assets.platform.errors import IncrementalLoadError

AUTHORITIES = "AWS_CA_BUNDLE"
"""The variable that names a file with the certificates of the authorities that S3's certificate may be signed by."""
ENCRYPTION = "AWS_SERVER_SIDE_ENCRYPTION"
"""The variable that names how S3 encrypts what is written, where the bucket's default is not enough."""
KMS_KEY = "AWS_SSE_KMS_KEY_ID"
"""The variable that names the key for it. deltalake reads both variables itself; Spark and s3fs are given them."""
ENCRYPTIONS = {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
"""What the former variable may be, as S3's interface has it, and what Hadoop's S3A calls it."""


@dataclass(frozen=True)
class S3Endpoint:
    """An S3 endpoint.

    Args:
        url: Address of an S3 service other than AWS, for example ``http://localhost:9000``; None: AWS.
        region: Region to sign for; None: the provider chain decides.
        authorities: PEM file with the certificates of the authorities that the endpoint's certificate may be signed by;
            None: those that each client knows.
        encryption: How S3 is to encrypt what is written, one of :data:`ENCRYPTIONS`; None: as the bucket's default is.
        kms_key: The key of KMS for that; None: the account's own key for S3.

    Example:
        >>> S3Endpoint("http://localhost:9000", "us-east-1").tls
        False
    """

    url: str | None
    region: str | None
    authorities: Path | None = None
    encryption: str | None = None
    kms_key: str | None = None

    @classmethod
    def from_env(cls) -> "S3Endpoint":
        """The endpoint in ``AWS_ENDPOINT_URL[_S3]``, ``AWS_[DEFAULT_]REGION``, ``AWS_CA_BUNDLE`` and for encryption."""
        url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        named = os.environ.get(AUTHORITIES)
        encryption, key = os.environ.get(ENCRYPTION) or None, os.environ.get(KMS_KEY) or None
        authorities = Path(named).absolute() if named else None
        return cls(url, region or ("us-east-1" if url else None), authorities, encryption, key)

    @property
    def tls(self) -> bool:
        """True if the connection is encrypted."""
        return not (self.url or "").startswith("http://")

    def check(self, doing: str) -> None:
        """Checks the file of the authorities and the encryption; each client would fail with words of its own.

        Args:
            doing: The current activity for messages, with the table.

        Raises:
            IncrementalLoadError: The file has no certificate, or cannot be read; or the encryption is unknown.
        """
        has_key = (self.encryption or "").startswith("aws:")
        if self.encryption not in (None, *ENCRYPTIONS) or (self.kms_key and not has_key):
            raise IncrementalLoadError(
                f"{doing}: {ENCRYPTION} is {self.encryption!r}" + (f", and {KMS_KEY} is set" if self.kms_key else ""),
                rule=f"it is one of {', '.join(ENCRYPTIONS)}, and a key is used with the latter two",
                remedy="correct it, or unset both, so that the bucket's default decides",
            )
        if self.authorities is None:
            return
        try:
            problem = "" if ssl.PEM_HEADER in self.authorities.read_text("ascii") else "holds no certificate"
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read ({type(error).__name__})"
        if problem:
            raise IncrementalLoadError(
                f"{doing}: {AUTHORITIES}={self.authorities} {problem}",
                rule="it names a PEM file with the certificates of the authorities that the endpoint's is signed by",
                remedy="correct the path or the file, or unset it where the endpoint needs no authority of your own",
            )


def is_s3(path: str) -> bool:
    """True if a full path, as templates produce it, is on S3."""
    return path.startswith("s3://")

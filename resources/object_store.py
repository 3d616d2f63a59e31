"""The S3 endpoint, from the environment variables that every AWS tool reads. Credentials are never read here."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from resources.errors import IncrementalLoadError

AUTHORITIES = "AWS_CA_BUNDLE"
"""The variable that names a file with the certificates of the authorities that S3's certificate may be signed by."""


@dataclass(frozen=True)
class S3Endpoint:
    """An S3 endpoint.

    Args:
        url: Address of an S3 service other than AWS, for example ``http://localhost:9000``; None: AWS.
        region: Region to sign for; None: the provider chain decides.
        authorities: PEM file with the certificates of the authorities that the endpoint's certificate may be signed by;
            None: those that each client knows.

    Example:
        >>> S3Endpoint("http://localhost:9000", "us-east-1").tls
        False
    """

    url: str | None
    region: str | None
    authorities: Path | None = None

    @classmethod
    def from_env(cls) -> "S3Endpoint":
        """The endpoint in ``AWS_ENDPOINT_URL[_S3]``, ``AWS_[DEFAULT_]REGION`` and ``AWS_CA_BUNDLE``."""
        url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        named = os.environ.get(AUTHORITIES)
        return cls(url, region or ("us-east-1" if url else None), Path(named).absolute() if named else None)

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return not (self.url or "").startswith("http://")

    def check(self, doing: str) -> None:
        """Checks that the file of the authorities has certificates; each client would fail with words of its own.

        Args:
            doing: The current activity for messages, with the table.

        Raises:
            IncrementalLoadError: It has none, or cannot be read.
        """
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
    """Whether a full path, as templates produce it, is on S3."""
    return path.startswith("s3://")

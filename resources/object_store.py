"""The S3 endpoint, from the environment variables that every AWS tool reads. Credentials are never read here."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class S3Endpoint:
    """An S3 endpoint.

    Args:
        url: Address of an S3 service other than AWS, for example ``http://localhost:9000``; None: AWS.
        region: Region to sign for; None: the provider chain decides.

    Example:
        >>> S3Endpoint("http://localhost:9000", "us-east-1").tls
        False
    """

    url: str | None
    region: str | None

    @classmethod
    def from_env(cls) -> "S3Endpoint":
        """The endpoint in ``AWS_ENDPOINT_URL[_S3]`` and ``AWS_REGION`` or ``AWS_DEFAULT_REGION``."""
        url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        return cls(url, region or ("us-east-1" if url else None))

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return not (self.url or "").startswith("http://")


def is_s3(path: str) -> bool:
    """Whether a full path, as templates produce it, is on S3."""
    return path.startswith("s3://")

"""A real S3 endpoint on this machine for the test run, with an account that it knows and one that it does not."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
import requests

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.spark.conf import SESSION_CONF


@dataclass(frozen=True)
class S3Server:
    """Where the endpoint is.

    Args:
        url: For ``AWS_ENDPOINT_URL_S3``.
    """

    url: str

    @property
    def port(self) -> int:
        """The port of the endpoint."""
        return urlsplit(self.url).port or 0

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to use the endpoint."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "not-to-be-shown",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def conf(self, environment: Mapping[str, str] | None = None, *, known: bool = True) -> dict[str, str]:
        """Settings with which a session uses the endpoint by the Spark of the test run, which started without it.

        Args:
            environment: That of another account, or with another address.
            known: Whether Spark may remember by the bucket's name how it is reached: for buckets of one test. If not,
                each operation is a new client, and a load takes minutes.
        """
        environment = self.environment() | dict(environment or {})
        return {
            f"fs.s3a.{name}": value
            for name, value in {
                "endpoint": environment["AWS_ENDPOINT_URL_S3"],
                "endpoint.region": environment["AWS_DEFAULT_REGION"],
                "path.style.access": "true",
                "connection.ssl.enabled": "false",
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
                "access.key": environment["AWS_ACCESS_KEY_ID"],
                "secret.key": environment["AWS_SECRET_ACCESS_KEY"],
                "attempts.maximum": "2",
                "retry.limit": "2",
                "retry.interval": "200ms",
                "impl.disable.cache": str(not known).lower(),
            }.items()
        }

    def use(
        self, patch: pytest.MonkeyPatch, environment: Mapping[str, str] | None = None, *, known: bool = True
    ) -> None:
        """Have this process use the endpoint: in its environment, and in the Spark sessions that it opens."""
        for name, value in (self.environment() | dict(environment or {})).items():
            patch.setenv(name, value)
        for name, value in self.conf(environment, known=known).items():
            patch.setitem(SESSION_CONF, name, value)

    def put(self, bucket: str, objects: dict[str, bytes]) -> None:
        """Make a bucket, if it is not there, and put objects into it."""
        with closing(self._client()) as client:
            client.create_bucket(Bucket=bucket)
            for key, content in objects.items():
                client.put_object(Bucket=bucket, Key=key, Body=content)

    def new_bucket(self, name: str, objects: dict[str, bytes]) -> str:
        """Make a bucket that no other test has; the whole name."""
        name = f"{name}-{secrets.token_hex(4)}"
        self.put(name, objects)
        return name

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""
        with closing(self._client()) as client:
            client.delete_object(Bucket=bucket, Key=key)

    def admit(self, *policies: str) -> dict[str, str]:
        """The environment of a new account; from here on, every request needs an account with a policy for it."""
        self.admit_all()
        name, environment = f"account-{secrets.token_hex(4)}", self.environment()
        with closing(self._client("iam")) as client:
            client.create_user(UserName=name)
            for number, policy in enumerate(policies):
                client.put_user_policy(UserName=name, PolicyName=f"policy-{number}", PolicyDocument=policy)
            key = client.create_access_key(UserName=name)["AccessKey"]
        self._validate_after(0)
        return environment | {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def admit_all(self) -> None:
        """Take every request again, whoever makes it."""
        self._validate_after(float("inf"))

    def _validate_after(self, requests_before: float) -> None:
        requests.post(f"{self.url}/moto-api/reset-auth", data=str(requests_before), timeout=10).raise_for_status()

    def _client(self, service: Any = "s3") -> Any:
        environment = self.environment()
        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            region_name=environment["AWS_DEFAULT_REGION"],
        )


@contextmanager
def running_s3(**environment: str) -> Iterator[S3Server]:
    """An S3 endpoint for as long as the block runs.

    Args:
        environment: Settings of moto; ``INITIAL_NO_AUTH_ACTION_COUNT="0"`` makes it refuse accounts it does not know.
    """
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _await_answer(server, f"{url}/moto-api/")
        yield S3Server(url)
    finally:
        server.terminate()
        server.wait(10)


def _await_answer(server: subprocess.Popen[bytes], url: str) -> None:
    """Until the server answers; its first answer takes seconds where the machine is busy, since it imports for it."""
    deadline = time.monotonic() + 120
    while True:
        if server.poll() is not None:
            raise RuntimeError(f"the S3 endpoint ended with {server.returncode}")
        try:
            requests.get(url, timeout=10)
            return
        except (requests.ConnectionError, requests.Timeout):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One endpoint for the whole test run; each test uses a bucket of its own."""
    with running_s3() as server:
        yield server


@pytest.fixture(scope="session")
def refusing_s3_server() -> Iterator[S3Server]:
    """An endpoint that knows no account at all."""
    with running_s3(INITIAL_NO_AUTH_ACTION_COUNT="0") as server:
        yield server

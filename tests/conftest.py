"""One Spark for the whole test run."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from resources import connect_server
from resources.settings import Settings
from resources.spark import open_session
from tests.s3_server import refusing_s3_server, s3_server

# The tables of a whole test run; in the environment, so that every program of the run agrees on the server.
os.environ.setdefault("INCLOAD_SPARK_MEMORY", "6g")

__all__ = ["refusing_s3_server", "s3_server", "spark", "spark_settings", "spark_url"]


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings whose Spark is the one server of the test run: of INCLOAD_TEST_REMOTE, or started for it."""
    remote = os.environ.get("INCLOAD_TEST_REMOTE")
    if remote:
        yield Settings(spark=remote)
        return
    # The server ends itself, should the test run be killed before it can.
    settings = Settings(home=tmp_path_factory.mktemp("spark"), spark="local", spark_idle_minutes=5)
    yield settings
    connect_server.stop(settings)


@pytest.fixture(scope="session")
def spark(spark_settings: Settings) -> Iterator[SparkSession]:
    """A session on the one Spark Connect server of the test run."""
    with open_session(spark_settings) as session:
        yield session


@pytest.fixture(scope="session")
def spark_url(spark_settings: Settings) -> str:
    """The address of that server, for programs that the tests start."""
    return (
        spark_settings.spark if spark_settings.spark_mode == "remote" else connect_server.find_or_start(spark_settings)
    )

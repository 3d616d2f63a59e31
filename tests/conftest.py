"""One Spark for the whole test run."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on the one Spark Connect server of the test run."""
    session = SparkSession.builder.remote(os.environ["INCLOAD_TEST_REMOTE"]).create()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.stop()

"""One Spark for the whole test run, also where tests run in several processes."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from tests.servers.connect import connect
from tests.servers.kafka import kafka
from tests.servers.mariadb import mariadb
from tests.servers.postgres import postgres
from tests.servers.registry import registry
from tests.servers.s3 import refusing_s3_server, s3_server
from tests.servers.spark_kafka import settings_for_kafka
from tests.support import sampling as drawing

# The tables of a whole test run; in the environment, so that every program of the run agrees on the server.
os.environ.setdefault("INCLOAD_SPARK_MEMORY", "6g")
# A test that needs a Kafka says so: else each Spark would have its jars, and each shop a broker of its own.
os.environ.setdefault("INCLOAD_KAFKA", "false")
# Of what is random by itself: names of tests are the same in every process then.
os.environ.setdefault("INCLOAD_TEST_SEED", str(random.randrange(2**32)))

REMOTE = "INCLOAD_TEST_REMOTE"
"""The server to use, if it is there already."""
STARTED = pytest.StashKey[Settings]()

__all__ = [
    "connect",
    "kafka",
    "mariadb",
    "postgres",
    "refusing_s3_server",
    "registry",
    "s3_server",
    "spark",
    "spark_settings",
    "spark_url",
]


def pytest_configure(config: pytest.Config) -> None:
    """Say which tests are drawn, and start the server, before the processes (pytest-xdist) that share them."""
    if not hasattr(config, "workerinput"):
        chosen = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or bool(config.option.keyword)
        os.environ[drawing.PART] = str(drawing.parts(chosen=chosen))
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput") and REMOTE not in os.environ:
        config.stash[STARTED] = settings = _own(Path(mkdtemp(prefix="spark-")))
        os.environ[REMOTE] = connect_server.find_or_start(settings)
    # For each Java that a test starts by itself, also through the product: it ends soon, and a quarter of the processor
    # time of a Spark went into compiling in full. The shared server, which runs for an hour, compiles as ever.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_report_header() -> list[str]:
    """How to run the same tests again."""
    seed, part = os.environ["INCLOAD_TEST_SEED"], os.environ[drawing.PART]
    which = "all tests" if part == "1" else f"1 in {part} of each file's tests that load, {drawing.PART}=1 takes all"
    return [f"{which}; drawn by INCLOAD_TEST_SEED={seed}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse the cases of a set: each process of a run would have them in another order, and none would start."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.args[1], set | frozenset):
            pytest.fail(f"{metafunc.definition.nodeid}: the cases are a set. Remedy: sort them or make them a list.")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: a file's can differ each time it is written, and processes have to agree."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not drawn, and begin with the longest tests: at the end, one process would wait for them."""
    tests, part = [item for item in items if isinstance(item, pytest.Function)], int(os.environ[drawing.PART])
    shorter = [test for test in tests if part == 1 or test.get_closest_marker("night") is None]
    taken = drawing.drawn(shorter, os.environ["INCLOAD_TEST_SEED"], part)
    left = [test for test in tests if test.nodeid not in taken]
    config.hook.pytest_deselected(items=left)
    items[:] = sorted(
        (item for item in items if item not in left), key=lambda item: "integration" not in item.path.parts
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop it."""
    if STARTED in config.stash:
        connect_server.stop(config.stash[STARTED])


def _own(home: Path) -> Settings:
    # The server ends itself, should the test run be killed before it can.
    jars: dict[str, Any] = {"s3": True, "mysql": True, "avro": True, **settings_for_kafka()}
    return Settings(home=home, spark="local", spark_idle_minutes=5, **jars)


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings whose Spark is the one server of the test run."""
    if remote := os.environ.get(REMOTE):
        yield Settings(spark=remote)
        return
    settings = _own(tmp_path_factory.mktemp("spark"))
    yield Settings(spark=connect_server.find_or_start(settings))  # by its address, as where processes share one
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

"""The same loads with their tasks on a cluster: a Spark master and two workers, of which some are killed."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.local_servers.locks import is_held
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from incload_assets.platform.spark.server_files import ServerFiles
from tests.integration.backfill import DAYS, dated, deliver, load
from tests.integration.loader import at
from tests.integration.test_backfill import materialized
from tests.servers.cluster import HERE, SECONDS, Cluster, running_cluster, wait_until
from tests.support.documents import documented_block
from tests.support.guest_table import House
from tests.writes.case import SEED, Case, crowds
from tests.writes.case_history import HISTORY
from tests.writes.case_merge import MERGE
from tests.writes.examples import Example, Step
from tests.writes.smallest import MOST_SECONDS, check
from tests.writes.test_conformance import ROWS, light

pytestmark = [pytest.mark.slow, pytest.mark.integration]

T = TypeVar("T")
STEPS: list[Step] = [("load", (3,)), ("together", (1, 2)), ("rewrite", (3,))]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark_settings(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """In place of the Spark of the test run: one configured as documented, its tasks on the cluster."""
    conf = documented_conf() | {"spark.master": cluster.address, "spark.driver.host": HERE} | cluster.conf
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_SPARK_CONF", json.dumps(conf))
        patch.setenv("INCLOAD_SPARK_MEMORY", "1g")
        patch.setenv("INCLOAD_SPARK_IDLE_MINUTES", "5")
        settings = Settings(home=tmp_path_factory.mktemp("spark"), spark="local")
        try:
            yield settings
        finally:
            connect_server.stop(settings)


@pytest.fixture
def spark(spark_settings: Settings) -> Iterator[SparkSession]:
    with open_session(spark_settings) as session:
        yield session


@pytest.fixture(autouse=True)
def both_at_work(cluster: Cluster, spark: SparkSession) -> None:
    """Each test begins with two workers that are given tasks."""
    cluster.restore()
    before, deadline = finished(cluster), time.monotonic() + SECONDS
    while not more(finished(cluster), before):
        assert time.monotonic() < deadline, "one of the workers is not given a task"
        spark.range(0, 100, numPartitions=4).count()


@pytest.fixture
def backfill(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], House]]:
    """A table for which some days of files have arrived."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    with dated(tmp_path, tmp_path / "home", spark_settings) as h:

        def delivered(days: int) -> House:
            for day in DAYS[:days]:
                deliver(tmp_path, day)
            return h

        yield delivered


def documented_conf() -> dict[str, str]:
    """The configuration that the documentation shows."""
    shown = re.search(r"INCLOAD_SPARK_CONF='(.*?)'", documented_block("sh", "spark://"), re.DOTALL)
    assert shown is not None
    return dict(json.loads(shown.group(1)))


def finished(cluster: Cluster) -> list[set[str]]:
    """The tasks that each worker has finished."""
    return [worker.finished() for worker in cluster.workers]


def more(now: list[set[str]], before: list[set[str]]) -> bool:
    """Whether each has finished some since."""
    return all(some > others for some, others in zip(now, before, strict=True))


def begun(load: Callable[[], T]) -> "Future[T]":
    """A load in a thread, for which nobody has to wait should the test fail."""
    threads = ThreadPoolExecutor(1)
    future = threads.submit(load)
    threads.shutdown(wait=False)
    return future


def begun_to_merge(load: Callable[[], T], monkeypatch: pytest.MonkeyPatch) -> "Future[T]":
    """The same, once it has come to its merge."""
    merging = threading.Event()
    at("before merging", merging.set, monkeypatch.setattr)
    loading = begun(load)
    assert merging.wait(SECONDS), "the load does not come to its merge"
    return loading


def rows(h: House) -> list[tuple[Any, ...]]:
    """The whole table."""
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return sorted(
        (row["name"], row["room"], row["seq"], str(row["day"])) for row in delta.to_pyarrow_table().to_pylist()
    )


def right(days: int) -> list[tuple[Any, ...]]:
    """What it has to hold, see ``deliver``."""
    return [(f"{day}/{n}", 1, 1, day) for day in DAYS[:days] for n in (1, 2)]


@pytest.mark.timeout(300 + MOST_SECONDS)
@pytest.mark.parametrize("case", [MERGE, HISTORY], ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_random_changes_make_the_right_table_by_tasks_on_both_workers(
    spark: SparkSession, cluster: Cluster, case: Case, data: st.DataObject
) -> None:
    contents = (case.contents or crowds()).filter(lambda content: sum(map(len, content.values())) >= ROWS)
    before = finished(cluster)
    check(spark, case, Example(STEPS, data.draw(contents), data.draw(contents)))
    assert more(finished(cluster), before)


def test_a_range_goes_on_when_a_worker_is_killed_amid_the_merge(
    cluster: Cluster, backfill: Callable[[int], House], monkeypatch: pytest.MonkeyPatch
) -> None:
    h = backfill(8)
    loading = begun_to_merge(lambda: load(h, DAYS[0], DAYS[7]), monkeypatch)
    killed, other = cluster.workers
    killed.stop_amid_a_task()
    done_before = other.finished()  # before the kill: the other may have done all that is left by its end
    killed.kill()

    assert loading.result(SECONDS).success
    assert (rows(h), materialized(h)) == (right(8), set(DAYS[:8]))
    assert other.finished() > done_before


def test_single_runs_go_on_when_a_worker_is_killed_amid_one(cluster: Cluster, backfill: Callable[[int], House]) -> None:
    h, first_is_green = backfill(3), threading.Event()

    def runs() -> Iterator[bool]:
        for day in DAYS[:3]:
            yield load(h, day, day).success
            first_is_green.set()

    loading = begun(lambda: list(runs()))
    assert first_is_green.wait(SECONDS), "the first run does not end"
    killed = cluster.workers[0]
    killed.stop_amid_a_task()
    killed.kill()

    assert loading.result(SECONDS) == [True] * 3
    assert (rows(h), materialized(h)) == (right(3), set(DAYS[:3]))


def test_a_load_that_has_lost_every_worker_waits_until_there_is_one_again(
    cluster: Cluster, backfill: Callable[[int], House], monkeypatch: pytest.MonkeyPatch
) -> None:
    h = backfill(1)
    loading = begun_to_merge(lambda: load(h, DAYS[0], DAYS[0]), monkeypatch)
    first, second = cluster.workers
    first.stop_amid_a_task()
    second.kill()  # before the task of the first is known to be lost: it would do it
    first.kill()
    cluster.wait_for_workers(0)
    assert not loading.done()
    assert not materialized(h), "what is not loaded is not green"
    cluster.restore(1)

    assert loading.result(SECONDS).success
    assert (rows(h), materialized(h)) == (right(1), set(DAYS[:1]))


def test_a_load_whose_application_the_cluster_ends_says_so_and_its_server_makes_room_for_a_new_one(
    spark_settings: Settings, cluster: Cluster
) -> None:
    server = ServerFiles.of(spark_settings.home_root)
    with pytest.raises(SparkUnavailable, match="orders 2026-01-03: the connection to Spark was lost") as caught:  # noqa: SIM117
        with open_session(spark_settings, "orders 2026-01-03") as session:
            session.range(1).count()
            cluster.end_applications()
            session.sql("SELECT count(*) FROM range(1000000000000) WHERE hash(id) % 7 = 3").first()
    assert caught.value.transient
    wait_until(lambda: not is_held(server.lock), "the server without Spark does not end")

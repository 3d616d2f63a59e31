"""The sample's Kafka: one per workspace, for its owner alone, there again with its messages when it was killed."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from incload_assets.platform.errors import SourceUnavailable, SourceUnreadable
from incload_assets.platform.kafka import KafkaCluster, provide
from incload_assets.platform.local_servers.locks import is_held
from incload_assets.platform.local_servers.supervisor import Record
from incload_assets.platform.samples import topics as sample_kafka
from incload_assets.platform.samples.kafka import KafkaFiles
from incload_assets.platform.samples.topics import find_or_start
from incload_assets.platform.settings import Settings
from incload_assets.sources.kafka.topic import TopicMetadata
from tests.servers.kafka import sample_kafka_ends

NAME, TOPICS = "sample_shop", {"things": 2}
ASK = """
import sys
from pathlib import Path
from incload_assets.platform.samples.topics import find_or_start
from incload_assets.platform.settings import Settings
print(find_or_start("sample_shop", Settings(home=Path(sys.argv[1]), kafka=None), {"things": 2}).servers)
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    home = tmp_path_factory.mktemp("workspace")
    with sample_kafka_ends(home):
        yield Settings(home=home, kafka=None)


@pytest.fixture(scope="module")
def files(settings: Settings) -> KafkaFiles:
    return KafkaFiles.of(settings.home_root)


@pytest.fixture(scope="module")
def answers(settings: Settings) -> list[str]:
    """What two processes were told that asked for a broker at the same time, when there was none."""
    asking = [
        subprocess.Popen([sys.executable, "-c", ASK, str(settings.home)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return [process.communicate(timeout=280)[0].strip() for process in asking]


@pytest.fixture
def server(answers: list[str], settings: Settings, files: KafkaFiles) -> Record:
    """The broker that is up, found or started again."""
    find_or_start(NAME, settings, TOPICS)
    server = files.read()
    assert server is not None
    return server


def broker_of(server: Record) -> psutil.Process:
    [broker] = psutil.Process(server.pid).children()
    return broker


def send(cluster: KafkaCluster, value: str) -> None:
    producer = Producer(cluster.client_options(print))
    producer.produce("things", value, partition=0)
    assert not producer.flush(30)


def count(cluster: KafkaCluster) -> int:
    return TopicMetadata("things", cluster, "things").ends()[0]


def eventually(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.1)
    return true()


def test_two_processes_at_once_end_up_on_one_broker_which_outlives_them(answers: list[str], server: Record) -> None:
    assert answers == [f"127.0.0.1:{server.port}"] * 2
    assert os.getsid(server.pid) == server.pid


def test_another_user_can_neither_read_the_password_nor_see_it(server: Record, files: KafkaFiles) -> None:
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    holding = {path.name for path in files.folder.iterdir() if path.is_file() and server.password in path.read_text()}
    assert holding == {"server.json", "kafka.properties"}
    assert {stat.S_IMODE((files.folder / name).stat().st_mode) for name in holding} == {0o600}
    for process in (psutil.Process(server.pid), broker_of(server)):
        assert not [word for word in process.cmdline() if server.password in word]
    assert server.password not in repr(find_or_start(NAME, Settings(home=files.folder.parent, kafka=None), TOPICS))


def test_it_listens_on_loopback_only_and_wants_the_password_at_each_port(server: Record) -> None:
    listening = [s.laddr for s in broker_of(server).net_connections("tcp") if s.status == psutil.CONN_LISTEN]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert len(listening) == 2
    for address in listening:
        guess = {"sasl.mechanism": "PLAIN", "sasl.username": "shop", "sasl.password": "guessed"}
        for login in ({}, {"security.protocol": "SASL_PLAINTEXT", **guess}):
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{address.port}", "log_level": 0, **login})
            with pytest.raises(Exception, match="Failed to get metadata"):
                client.list_topics(timeout=0.5)


@pytest.mark.parametrize("killed", ["the supervisor", "both, in a moment, as in a power failure"])
def test_what_was_killed_is_started_again_with_its_messages(
    killed: str, server: Record, settings: Settings, files: KafkaFiles
) -> None:
    cluster = find_or_start(NAME, settings, TOPICS)
    send(cluster, killed)
    before, topic = count(cluster), TopicMetadata("things", cluster, "things").identity
    broker = broker_of(server)
    psutil.Process(server.pid).kill()
    if killed != "the supervisor":
        with suppress(psutil.NoSuchProcess):
            broker.kill()
    assert eventually(lambda: not is_held(files.lock))

    again = find_or_start(NAME, settings, TOPICS)

    assert count(again) == before > 0
    assert TopicMetadata("things", again, "things").identity == topic
    assert not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE


def test_it_ends_by_itself_when_nobody_asks_for_it_and_not_while_somebody_is_connected(tmp_path: Path) -> None:
    settings, files = Settings(home=tmp_path, kafka=None, spark_idle_minutes=0.02), KafkaFiles.of(tmp_path)
    with sample_kafka_ends(tmp_path):
        cluster = find_or_start(NAME, settings, TOPICS)
        connected = AdminClient(cluster.client_options(print))
        connected.list_topics(timeout=10)
        time.sleep(2.5)
        assert "things" in connected.list_topics(timeout=10).topics
        del connected
        assert eventually(lambda: not is_held(files.lock))
        assert files.read() is None and (files.folder / "data" / "meta.properties").exists()


def test_without_its_jars_it_is_one_clear_error_and_maven_is_not_asked_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sample_kafka, "JARS", ("org.apache.kafka:kafka-of-no-release:0.0.0",))  # no local cache has it
    settings = Settings(home=tmp_path / "home", kafka=None, maven_repositories="http://me:secret@127.0.0.1:9/maven")
    told = []
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(SourceUnavailable) as caught:
            find_or_start(NAME, settings, TOPICS)
        told.append((str(caught.value), time.monotonic() - began))
    assert told[0][0].startswith(
        "Kafka cluster 'sample_shop': the Kafka that comes with the samples: Spark's jars "
        "(org.apache.kafka:kafka-of-no-release:0.0.0) could not be fetched from Maven: "
    )
    assert told[0][0] == told[1][0]
    assert told[1][1] < 1 < told[0][1]
    assert "configure your own Kafka by INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS" in told[0][0]
    assert "secret" not in told[0][0]


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    """As with data that another version or another program has left."""
    folder = KafkaFiles.of(tmp_path).folder
    (folder / "data").mkdir()
    (folder / "data" / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=x\n")
    with pytest.raises(SourceUnavailable, match=r"it does not start: .*node.id") as caught:
        find_or_start(NAME, Settings(home=tmp_path, kafka=None), TOPICS)
    assert f"see {folder}/server.log" in str(caught.value.remedy)


def test_it_is_not_started_where_kafka_is_switched_off(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="INCLOAD_KAFKA is false, which prevents its start"):
        find_or_start(NAME, Settings(home=tmp_path, kafka=False), TOPICS)
    assert list(tmp_path.iterdir()) == []


def test_a_provided_cluster_is_used_where_the_environment_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    provide("brought_along", lambda: KafkaCluster("brought_along", "here:1"))
    assert KafkaCluster.named("brought_along").servers == "here:1"
    monkeypatch.setenv("INCLOAD_KAFKA_BROUGHT_ALONG_OPTIONS", '{"security.protocol": "SSL"}')
    with pytest.raises(SourceUnreadable, match="INCLOAD_KAFKA_BROUGHT_ALONG_SERVERS is not set"):
        KafkaCluster.named("brought_along")
    monkeypatch.setenv("INCLOAD_KAFKA_BROUGHT_ALONG_SERVERS", "there:2")
    assert KafkaCluster.named("brought_along").servers == "there:2"

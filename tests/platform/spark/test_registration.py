"""One Spark driver for a lake on S3: whoever comes second is refused, whoever is gone is replaced."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.client import AioBaseClient

from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.object_stores import object_store
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import registration
from incload_assets.platform.spark.registration import Driver, Registration, lake_of_one_driver
from incload_assets.platform.spark.resource import open_session
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.integration
ENDS = """
import sys
from datetime import timedelta
from time import sleep
from incload_assets.platform.spark import registration, resource

registration.RENEWED_AFTER = timedelta(seconds=0.1)
resource._register_process(sys.argv[1])
registration.ENDS_AFTER = timedelta(0)
registration.Registration._write = None
print("begun")
sleep(60)
"""


@pytest.fixture
def lake(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    yield f"s3://{s3_server.new_bucket('drivers', {})}/prod"


def elsewhere(name: str) -> Driver:
    """A driver on another machine."""
    return Driver(name, f"a Spark server, process 7 on {name}", 7, "another boot")


def registered(lake: str, driver: Driver) -> Registration:
    made = Registration(lake, driver)
    made.register()
    return made


def test_a_second_driver_is_refused_until_the_first_has_ended(lake: str) -> None:
    first = registered(lake, elsewhere("one"))
    for attempt in (Registration(lake, elsewhere("two")).check, Registration(lake, elsewhere("two")).register):
        with pytest.raises(SparkUnavailable) as refused:
            attempt()
    assert str(refused.value) == (
        f"the lake {lake} has another Spark driver: a Spark server, process 7 on one. Rule: Delta's commits on S3 are "
        "safe from one Spark driver only; a second one could overwrite a commit of the first. Remedy: let all machines "
        "use one Spark Connect server (INCLOAD_SPARK=sc://…), or stop that one; one that was killed is replaced after "
        "120 seconds."
    )
    first.release()
    registered(lake, elsewhere("two"))


def test_of_drivers_that_start_at_once_one_is_registered(lake: str) -> None:
    def start(number: int) -> bool:
        try:
            return bool(registered(lake, elsewhere(f"machine{number}")))
        except SparkUnavailable:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(start, range(8))) == 1


def test_a_driver_that_was_killed_beside_this_process_is_replaced_at_once(lake: str) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    here = Driver.of_process("a Spark server")
    registered(lake, Driver("killed", "a Spark server", ended.pid, here.where))
    registered(lake, here)


def test_a_driver_whose_process_is_a_zombie_is_gone() -> None:
    here = Driver.of_process("a Spark server")
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert replace(here, pid=ended.pid).is_gone
    ended.wait()


def test_a_driver_whose_number_another_process_has_now_is_gone() -> None:
    here = Driver.of_process("a Spark server")
    assert here.began and not here.is_gone
    assert not replace(here, began="").is_gone
    assert replace(here, began="1").is_gone
    assert not replace(here, began="1", where="another boot").is_gone


def test_a_driver_needs_no_more_than_the_rights_on_the_lakes_prefix(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str]] = []
    send = AioBaseClient._make_api_call

    def recorded(client: AioBaseClient, operation: str, request: dict[str, Any]) -> Any:
        sent.append((operation, str(request.get("Key", request.get("Prefix")))))
        return send(client, operation, request)

    monkeypatch.setattr(AioBaseClient, "_make_api_call", recorded)
    monkeypatch.setattr(registration, "RENEWED_AFTER", timedelta(0))
    registered(lake, elsewhere("before")).release()
    mine = registered(lake, elsewhere("one"))
    assert mine.keep()
    mine.check()
    mine.release()
    assert {operation for operation, _ in sent} == {
        "ListObjectsV2",
        "HeadObject",
        "GetObject",
        "PutObject",
        "DeleteObject",
    }
    assert all(place.startswith("prod/_driver/") for _, place in sent)


def test_a_driver_elsewhere_that_is_silent_is_replaced_and_notices_it(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = registered(lake, elsewhere("silent"))
    with monkeypatch.context() as patch:
        patch.setattr(registration, "LAPSES_AFTER", timedelta(days=-1))
        registered(lake, elsewhere("next"))
    monkeypatch.setattr(registration, "RENEWED_AFTER", timedelta(0))
    assert not silent.keep()


def test_a_driver_that_cannot_renew_its_registration_ends_before_another_may_take_its_place(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = registered(lake, elsewhere("cut off"))
    monkeypatch.setattr(registration, "RENEWED_AFTER", timedelta(0))
    assert mine.keep()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    assert mine.keep()  # for a moment only
    monkeypatch.setattr(registration, "ENDS_AFTER", timedelta(0))
    assert not mine.keep()
    assert registration.ENDS_AFTER < registration.LAPSES_AFTER


def test_an_error_of_any_kind_is_a_renewal_that_failed(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = registered(lake, elsewhere("one"))
    object_store(lake).file_system().pipe_file(f"{lake}/_driver/notes.json", b"not-to-be-shown")
    monkeypatch.setattr(registration, "RENEWED_AFTER", timedelta(0))
    assert mine.keep()
    monkeypatch.setattr(registration, "ENDS_AFTER", timedelta(0))
    assert not mine.keep()
    assert f"WARN the registration in {lake}/_driver could not be renewed: ValueError\n" in capsys.readouterr().out


def test_a_process_that_lost_its_place_says_why_it_ends(lake: str) -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS, lake], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (1, "begun")
    assert ended.stderr.endswith("error: the lake may have another Spark driver now, so this process ends\n")


def test_a_driver_that_stood_still_for_long_ends_without_a_look(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = registered(lake, elsewhere("asleep"))
    monkeypatch.setattr(registration, "LAPSES_AFTER", timedelta(0))
    assert not mine.keep()


def test_clients_of_one_server_register_it_together_and_those_of_another_are_refused(lake: str) -> None:
    address = "sc://spark.example.com:15002/;use_ssl=true;token=not-to-be-shown"
    first, second = registered(lake, Driver.at(address)), registered(lake, Driver.at(address))
    assert first.keep() and second.keep()
    with pytest.raises(SparkUnavailable, match=r"the Spark Connect server spark\.example\.com:15002") as refused:
        registered(lake, Driver.at("sc://other.example.com:15002"))
    assert "not-to-be-shown" not in str(refused.value)
    client = object_store(lake).file_system()
    assert b"not-to-be-shown" not in b"".join(client.cat(f"{lake}/_driver/*").values())


def test_clients_of_one_server_that_begin_together_are_none_refused(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Driver.at("sc://spark.example.com")
    registered(lake, server)
    second, other = Registration(lake, server), Registration(lake, Driver.at("sc://other.example.com"))
    for late in (second, other):  # it looked before the first one had registered
        monkeypatch.setattr(late, "_free", lambda: (0, False))
    second.register()
    monkeypatch.setattr(registration, "RENEWED_AFTER", timedelta(0))
    assert second.keep()
    with pytest.raises(SparkUnavailable, match=r"the Spark Connect server spark\.example\.com:15002"):
        other.register()


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("sc://spark", "spark:15002"),
        ("sc://Spark:15002", "spark:15002"),
        ("sc://spark:/;use_ssl=true", "spark:15002"),
        ("sc://[FD00::1]/", "[fd00::1]:15002"),
        ("sc://someone:not-to-be-shown@spark:443", "spark:443"),
        ("sc://spark:15002;token=not-to-be-shown", "spark:15002"),
        ("sc://spark;token=not-to-be-shown", "spark:15002"),
        ("sc://token=not-to-be-shown", "token=***:15002"),
    ],
)
def test_a_server_is_one_however_its_address_is_spelled(address: str, server: str) -> None:
    assert Driver.at(address) == Driver(f"server {server}", f"the Spark Connect server {server}")


@pytest.mark.parametrize(
    ("given", "lake"),
    [
        ("s3://my-lake/prod", "s3://my-lake/prod"),
        ("s3a://my-lake/prod", "s3://my-lake/prod"),
        ("s3n://my-lake/prod/", "s3://my-lake/prod"),
        ("gs://my-lake/prod", None),
        ("/srv/lake", None),
    ],
)
def test_a_lake_of_one_driver_is_one_however_it_is_spelled(given: str, lake: str | None) -> None:
    assert lake_of_one_driver(Settings(lake=given)) == lake


def test_an_address_at_which_no_spark_is_keeps_nobody_away(lake: str) -> None:
    nowhere = Settings(lake=lake, spark=f"sc://localhost:{free_port()}")
    with pytest.raises(SparkUnavailable, match="does not answer"), open_session(nowhere):
        pass
    registered(lake, elsewhere("one"))


def test_a_session_of_a_server_that_lost_its_place_is_stopped(
    lake: str, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "RENEWED_AFTER", timedelta(seconds=0.2))
    settings, until = Settings(lake=lake, spark=spark_settings.spark), time.monotonic() + 120
    with pytest.raises(SparkUnavailable, match="orders: the lake may have another Spark driver now"):  # noqa: SIM117
        with open_session(settings, "orders") as session:
            object_store(lake).file_system().pipe_file(f"{lake}/_driver/000000000007.json", b"{}")
            while time.monotonic() < until:
                session.range(1).collect()


def test_servers_on_their_own_machines_are_two(lake: str) -> None:
    assert Driver.at("sc://localhost:15002") == Driver.at("sc://localhost:15002")
    assert "localhost:15002 of " in Driver.at("sc://localhost:15002").description


def test_a_spark_is_not_started_for_a_lake_that_has_one(lake: str, tmp_path: Path) -> None:
    registered(lake, elsewhere("one"))
    for spark in ("local", "in-process", "sc://127.0.0.1:1"):
        settings = Settings(home=tmp_path, lake=lake, spark=spark)
        with pytest.raises(SparkUnavailable, match="has another Spark driver"), open_session(settings):
            pass


def test_a_lake_with_a_registration_alone_is_still_nobodys(lake: str) -> None:
    registered(lake, elsewhere("one"))
    assert Lake(lake, "dev").owner() is None
    with pytest.raises(ValueError, match="the loader's own folder"):
        Lake(lake).table_uri(["_driver"])


@pytest.mark.parametrize(
    ("kind", "told"),
    [("bucket", "NoSuchBucket"), ("silent", "EndpointConnectionError"), ("content", "cannot be read")],
    ids=["no bucket", "silent", "damaged"],
)
def test_what_keeps_a_driver_from_registering_is_told(
    lake: str, kind: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "bucket":
        lake = "s3://no-such-bucket-here/prod"
    elif kind == "silent":
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    else:
        object_store(lake).file_system().pipe_file(f"{lake}/_driver/000000000001.json", b"{}")
    with pytest.raises(IncrementalLoadError, match=told) as error:
        registered(lake, elsewhere("one"))
    assert "not-to-be-shown" not in str(error.value) and error.value.remedy

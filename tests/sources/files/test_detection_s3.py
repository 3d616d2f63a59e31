"""Which files a window holds, on S3."""

import gzip
import io
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import md5

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

from incload_assets.declaration.window import Window
from incload_assets.platform.errors import IncrementalLoadError, SourceChanged, SourceUnavailable, SourceUnreadable
from incload_assets.platform.local_servers.files import free_port
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.compressed import check_frames
from incload_assets.sources.files.csv_shape import CsvOptions, Shape, shapes_of
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.parquet import schema_of
from incload_assets.sources.files.template import Template
from tests.servers.s3 import S3Server
from tests.support.detection import detected, surveyed
from tests.support.files import FIRST, day, days, keys

pytestmark = pytest.mark.integration

DAILY = Files("{landing}/orders/{window:%Y-%m-%d}/*.json")
Use = Callable[[S3Server, str], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes a bucket of a server the landing area, with credentials from the environment only."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)

    def chosen(server: S3Server, bucket: str) -> None:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("INCLOAD_LANDING", f"s3://{bucket}/in")

    return chosen


def test_positions_name_objects_by_key_etag_and_size(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "positions")
    s3_server.put(
        "positions",
        {
            "in/orders/2026-01-01/b c%20é+.json": b"{}",
            "in/orders/2026-01-01/a.json": b"{}\n{}",
            "in/orders/2026-01-01/_hidden.json": b"{}",
            "in/orders/2026-01-01/deeper/a.json": b"{}",
            "in/orders/2026-01-01/": b"",
            "in/orders/2026-01-011/a.json": b"{}",
            "in/orders/2026-01-03/a.json": b"",
            "orders/2026-01-01/a.json": b"{}",
        },
    )
    found = detected(DAILY, "orders", days(4), {})
    assert {key: position.detail["files"] for key, position in found.items()} == {
        "2026-01-01": [
            ["orders/2026-01-01/a.json", md5(b"{}\n{}").hexdigest(), 5],
            ["orders/2026-01-01/b c%20é+.json", md5(b"{}").hexdigest(), 2],
        ],
        "2026-01-03": [["orders/2026-01-03/a.json", md5(b"").hexdigest(), 0]],
    }
    assert found == detected(DAILY, "orders", days(300), {})


@pytest.mark.parametrize("count", [1, 20])
def test_objects_that_the_path_leaves_out_because_of_their_names_are_told_of_the_same_listing(
    s3_server: S3Server, use: Use, count: int
) -> None:
    bucket = f"left-out-{count}"
    use(s3_server, bucket)
    names = ["_a.json", "a.json.gz", "b.JSON", "c.json.tmp"]
    others = ["a.json", "_SUCCESS", "a.json.md5", "sub/_a.json"]
    s3_server.put(bucket, {f"in/orders/2026-01-01/{name}": b"{}" for name in (*names, *others)})
    s3_server.put(bucket, {"in/orders/2026-01-01/_empty.json": b"", "in/orders/2026-01-01//a.json": b"{}"})
    seen = surveyed(DAILY, "orders", days(count), {})
    assert seen.left_out == [f"orders/2026-01-01/{name}" for name in names]
    assert seen.positions == detected(DAILY, "orders", days(count), {})
    assert keys(seen.positions["2026-01-01"]) == ["orders/2026-01-01/a.json"]


def test_a_rewritten_object_of_the_same_size_is_another_position(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "rewritten")
    s3_server.put("rewritten", {"in/orders/2026-01-01/a.json": b'{"a":1}'})
    before = detected(DAILY, "orders", [day(1)], {})
    s3_server.put("rewritten", {"in/orders/2026-01-01/a.json": b'{"a":2}'})
    assert detected(DAILY, "orders", [day(1)], {})["2026-01-01"].fingerprint != before["2026-01-01"].fingerprint


def test_a_deleted_object_is_reported_and_its_rows_are_kept(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "deleted")
    s3_server.put("deleted", {"in/orders/2026-01-01/a.json": b"{}"})
    landed = detected(DAILY, "orders", [day(1)], {})
    s3_server.delete("deleted", "in/orders/2026-01-01/a.json")
    after = detected(DAILY, "orders", [day(1)], landed)["2026-01-01"]
    assert (after.fingerprint, keys(after)) == (landed["2026-01-01"].fingerprint, [])
    assert DAILY.missing("orders", [day(1)], landed) == {"2026-01-01": ["orders/2026-01-01/a.json"]}


def test_a_flat_object_belongs_to_the_window_of_its_upload(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "flat")
    s3_server.put("flat", {"in/a.json": b"{}"})
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    around = [Window(today + timedelta(days=n), today + timedelta(days=n + 1), f"{n}") for n in (-1, 0, 1)]
    found = detected(Files("{landing}/*.json"), "orders", around, {}, first=FIRST)
    assert [keys(position) for position in found.values()] == [["a.json"]]


def test_ten_thousand_objects_are_listed_completely_and_soon(use: Use) -> None:
    names = [f"orders/{day(1 + number % 30).key}/{number:05}.json" for number in range(10_050)]
    before = [f"orders/2025-12-31/{number}.json" for number in range(50)]
    # a server in this process, to put the objects where it keeps them: ten thousand requests would take a minute
    server = ThreadedMotoServer("127.0.0.1", free_port())
    server.start()
    try:
        host, port = server.get_host_and_port()
        use(S3Server(f"http://{host}:{port}"), "many")
        S3Server(f"http://{host}:{port}").put("many", {})
        for name in (*names, *before):
            s3_backends["123456789012"]["aws"].put_object("many", f"in/{name}", b"{}")
        began = time.monotonic()
        found = detected(DAILY, "orders", days(300), {})
        took = time.monotonic() - began
        second = detected(DAILY, "orders", [day(2)], {})
    finally:
        server.stop()
    assert sorted(key for position in found.values() for key in keys(position)) == sorted(names)
    assert keys(second["2026-01-02"]) == sorted(names[1::30])
    assert took < 30


def test_headers_and_footers_are_read_from_objects(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "heads")
    footer = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), footer)
    s3_server.put(
        "heads",
        {
            "in/a b+%41.csv": b"id,name\n" + b"1,a\n" * 50_000 + b'2,"b"\n',
            "in/b.csv.gz": gzip.compress(b"name\n1\n"),
            "in/c.parquet": footer.getvalue(),
        },
    )
    template = Template.parse("orders", "{landing}/*", "s3://heads/in")
    paths = [template.path_of("a b+%41.csv"), template.path_of("b.csv.gz")]
    columns = FileColumns("orders", ["name"])
    assert shapes_of("orders", template, paths, CsvOptions(), columns) == {
        paths[0]: Shape(("id", "name"), finds_line_ends=False),
        paths[1]: Shape(("name",), finds_line_ends=False),
    }
    assert schema_of("orders", template, template.path_of("c.parquet")) == (("id", pa.int64()), ("name", pa.string()))
    with pytest.raises(SourceChanged, match=r"the file d.csv has vanished"):
        shapes_of("orders", template, [template.path_of("d.csv")], CsvOptions(), columns)
    with pytest.raises(SourceChanged, match=r"the file d.parquet has vanished"):
        schema_of("orders", template, template.path_of("d.parquet"))


def test_ends_of_compressed_objects_are_looked_at(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "ends")
    two = zstandard.compress(b"1\n" * 100) + zstandard.compress(b"2\n" * 100)
    s3_server.put("ends", {"in/a.csv.zst": two, "in/b c%.csv.zst": two[:-1], "in/c.csv.zst": b""})
    template = Template.parse("orders", "{landing}/*", "s3://ends/in")
    check_frames("orders", template, map(template.path_of, ["a.csv.zst", "c.csv.zst"]))
    with pytest.raises(SourceUnreadable, match=r"the file b c%.csv.zst is cut off"):
        check_frames("orders", template, [template.path_of("b c%.csv.zst")])
    with pytest.raises(SourceChanged, match=r"the file d.csv.zst has vanished"):
        check_frames("orders", template, [template.path_of("d.csv.zst")])


def refused(source: Files = DAILY) -> tuple[IncrementalLoadError, float]:
    """What detection raises, and after how many seconds."""
    began = time.monotonic()
    with pytest.raises(IncrementalLoadError) as raised:
        detected(source, "orders", [day(1)], {})
    assert "not-to-be-shown" not in str(raised.value)
    assert raised.value.__cause__ is None
    return raised.value, time.monotonic() - began


def test_a_server_that_is_down_is_named_and_may_come_back(use: Use) -> None:
    port = free_port()
    use(S3Server(f"http://user:not-to-be-shown@127.0.0.1:{port}"), "down")
    error, seconds = refused()
    assert isinstance(error, SourceUnavailable)
    assert "s3://down" in str(error)
    assert f"S3 endpoint http://127.0.0.1:{port}" in str(error)
    assert seconds < 10


def test_a_server_that_does_not_answer_is_given_up(use: Use) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        use(S3Server(f"http://127.0.0.1:{deaf.getsockname()[1]}"), "silent")
        error, seconds = refused()
    assert isinstance(error, SourceUnavailable)
    assert "s3://silent" in str(error)
    assert seconds < 20


def test_credentials_that_the_server_does_not_know_are_refused_soon(refusing_s3_server: S3Server, use: Use) -> None:
    use(refusing_s3_server, "secrets")
    error, seconds = refused()
    assert isinstance(error, SourceUnreadable)
    assert str(error).startswith("orders: S3 refuses s3://secrets (InvalidAccessKeyId)")
    assert seconds < 10


def test_no_credentials_at_all_are_refused_soon(
    s3_server: S3Server, use: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    use(s3_server, "none")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    error, seconds = refused()
    assert isinstance(error, SourceUnreadable)
    assert str(error).startswith("orders: no usable S3 credentials for s3://none (NoCredentialsError)")
    assert seconds < 10


def test_a_bucket_that_is_not_there_is_named(s3_server: S3Server, use: Use) -> None:
    use(s3_server, "nowhere")
    error, _ = refused()
    assert isinstance(error, SourceUnreadable)
    assert str(error).startswith("orders: there is no s3://nowhere (NoSuchBucket)")

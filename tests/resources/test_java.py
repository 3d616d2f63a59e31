"""Java is found, or its absence is one line that says what was found and how to get one."""

from pathlib import Path

import pytest

from incload_assets.loading.errors import SparkUnavailable
from resources.java import java_home


def _java(home: Path, version: str) -> Path:
    """A ``java`` that answers as one of that version does."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return home


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk21", "21.0.1")))
    monkeypatch.setenv("PATH", f"{_java(tmp_path / 'jdk17', '17.0.15')}/bin:/bin:/usr/bin")
    assert java_home() == tmp_path / "jdk21"


def test_a_java_on_the_path_replaces_a_java_home_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk8", "1.8.0_392")))
    monkeypatch.setenv("PATH", f"{_java(tmp_path / 'jdk17', '17.0.15')}/bin:/bin:/usr/bin")
    assert java_home() == tmp_path / "jdk17"


def test_too_old_javas_give_one_line_that_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, older = _java(tmp_path / "jdk11", "11.0.2"), _java(tmp_path / "jdk8", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{older}/bin")
    with pytest.raises(SparkUnavailable) as caught:
        java_home()
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer; found: JAVA_HOME={old} is Java 11, {older}/bin/java is Java 8. Remedy: install "
        "one (Debian, Ubuntu: `sudo apt install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`) or point "
        "JAVA_HOME at one."
    )
    assert not caught.value.transient


def test_no_java_at_all_gives_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"found: none \(JAVA_HOME unset, no java on PATH\)\. Remedy: install"):
        java_home()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"found: JAVA_HOME=\S+/gone has no bin/java\."):
        java_home()

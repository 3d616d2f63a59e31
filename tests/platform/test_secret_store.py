"""Secrets that a value names: asked for from a command or a folder, never shown, and asked for again."""

import shutil
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from incload_assets.platform import secret_store
from incload_assets.platform.databases import Database
from incload_assets.platform.errors import SourceUnavailable, SourceUnreadable
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.protection_keys import protection_key
from incload_assets.platform.secret_store import COMMAND, FOLDER, resolved
from incload_assets.platform.settings import Settings

SECRET = "not-to-be-shown-" + "x" * 32


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMMAND, raising=False)
    monkeypatch.delenv(FOLDER, raising=False)
    secret_store.forget()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a secret."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    put(folder, "shop", SECRET + "\n")
    monkeypatch.setenv(FOLDER, str(folder))
    return folder


def put(folder: Path, name: str, text: str) -> Path:
    (folder / name).touch(mode=0o600)
    (folder / name).write_text(text)
    return folder / name


def test_every_kind_of_setting_may_name_a_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", "postgresql://db.example/shop")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", "reader")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", "secret:shop")
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", "kafka.example:9093")
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", '{"sasl.password": "secret:shop"}')
    monkeypatch.setenv("INCLOAD_KEY_CRM", "secret:shop")
    put(folder, "spark", "sc://spark.example:15002/;use_ssl=true;token=t")
    assert Database.named("shop").password == SECRET
    assert KafkaCluster.named("shop").options == {"sasl.password": SECRET}
    assert protection_key("crm") == SECRET.encode()
    assert Settings(spark="secret:spark").spark_mode == "remote"


def test_a_folder_that_others_may_enter_and_a_file_that_they_may_read_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "shop").chmod(0o640)
    with pytest.raises(ValueError, match=r"secret 'shop': others .* have access to its file; chmod 600"):
        resolved("secret:shop")
    (folder / "shop").chmod(0o600)
    folder.chmod(0o750)
    with pytest.raises(ValueError, match="have access to INCLOAD_SECRET_FOLDER; chmod 700"):
        resolved("secret:shop")
    monkeypatch.setenv("INCLOAD_KEY_CRM", "secret:shop")
    with pytest.raises(SourceUnreadable, match="key 'crm' for personal values: secret 'shop': others"):
        protection_key("crm")
    folder.chmod(0o700)
    assert resolved("secret:shop") == SECRET


@pytest.mark.parametrize("name", ["", "../shop", "/etc/passwd", "a/../shop", "--help", "a b", "$(id)"])
def test_a_name_is_no_option_and_no_way_out(folder: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of a secret"):
        resolved(f"secret:{name}")


def test_a_command_gets_the_name_as_one_word_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND, "printf '%s\\n' {name};$(touch x)")
    assert resolved("secret:team/shop") == "team/shop;$(touch\nx)"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sh -c 'echo not-to-be-shown; echo not-to-be-shown >&2; exit 3' {name}", "ended with 3"),
        ("no-such-program {name}", "cannot be run"),
        ("true {name}", "it is empty"),
        ("echo not-to-be-shown", "has no {name}"),
        ("echo 'not-to-be-shown {name}", "an open quotation mark"),
        ('printf "\\\\377" {name}', "is no text"),
    ],
)
def test_a_command_that_fails_is_told_without_its_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, told: str
) -> None:
    monkeypatch.setenv(COMMAND, command)
    with pytest.raises(ValueError, match="secret 'shop': ") as raised:
        resolved("secret:shop")
    assert told in str(raised.value)
    seen = capfd.readouterr()
    assert "not-to-be-shown" not in str(raised.value) + seen.out + seen.err


def test_a_command_that_hangs_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_store, "COMMAND_SECONDS", 1.0)
    monkeypatch.setenv(COMMAND, f"sh -c 'sleep 600 & echo $! >{tmp_path}/child; wait' {{name}}")
    begin = time.monotonic()
    with pytest.raises(SourceUnavailable, match="did not end within"):
        resolved("secret:shop")
    assert time.monotonic() - begin < 10
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    raise AssertionError("what the command has started goes on")


def test_one_place_is_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND, "echo {name}")
    with pytest.raises(ValueError, match="one has to be set, and both are"):
        resolved("secret:shop")
    monkeypatch.delenv(COMMAND)
    monkeypatch.delenv(FOLDER)
    with pytest.raises(ValueError, match="one has to be set, and neither is"):
        resolved("secret:shop")


def test_a_rotated_secret_is_found_after_some_minutes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved("secret:shop") == SECRET
    put(folder, "shop", "another one")
    assert resolved("secret:shop") == SECRET
    now = time.monotonic()
    monkeypatch.setattr(secret_store.time, "monotonic", lambda: now + secret_store.MAX_AGE_SECONDS + 1)
    assert resolved("secret:shop") == "another one"


@pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")
def test_files_encrypted_by_gpg_are_a_secret_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "g"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    quiet = ["gpg", "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*quiet, "--quick-generate-key", "loader", "default", "default"], check=True, capture_output=True)
    store = tmp_path / "shop.gpg"
    encrypt = [*quiet, "--trust-model", "always", "--encrypt", "--recipient", "loader", "--output", str(store)]
    subprocess.run(encrypt, input=SECRET.encode(), check=True, capture_output=True)
    assert SECRET.encode() not in store.read_bytes()
    monkeypatch.setenv(COMMAND, f"gpg --batch --quiet --decrypt {tmp_path}/{{name}}.gpg")
    assert resolved("secret:shop") == SECRET
    subprocess.run(["gpgconf", "--kill", "all"], check=False, capture_output=True)

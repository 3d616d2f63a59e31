"""A table that is damaged, or whose source is down, is a row and a line about itself everywhere, and hides no other."""

import ctypes
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}
MODULE = readme_files()["my_lake/tables/payments.py"]
HEADER = "payment_id,payer,amount,updated_at,state\n"
FILES = 'Files("{landing}/payments/{window:%Y-%m-%d}.csv")'
LIBC, PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = ctypes.CDLL(None), 24, 1, 2
GOOD, BAD = ("fees", "rents"), "loans"
DAY = "2026-01-01"
FOREIGN = re.compile(r"panicked|Traceback|Unexpected|<unknown>|\.cargo|\.rs\b|Kernel error|↳")
ASK = """
import json, sys
import dagster as dg
from typer.testing import CliRunner
from incload_assets.cli.program import program
from incload_assets.cli.support.project import open_project
from incload_assets.monitoring.dashboard.page_server import PageServer, looks
from incload_assets.monitoring.dashboard.drawing import Links
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings

said, questions = {}, json.loads(sys.argv[1])
for command in questions:
    if not command.startswith(("/", "watch_", "replay_")):
        done = CliRunner().invoke(program, command.split())
        said[command] = [done.exit_code, done.output]
with open_project() as project:
    lake, code = Lake.of(Settings()), project.definitions.get_repository_def()
    pages = looks(project.instance, project.tables, lake), LoadsTable(lake), Links()
    with PageServer(("127.0.0.1", 0), *pages) as server:
        for path in questions:
            if path.startswith("/"):
                status, text = server.page(path)
                said[path] = [int(status != 200), text]
    for name in questions:
        if name.startswith(("watch_", "replay_")):
            with dg.build_sensor_context(project.instance, repository_def=code, resources={"lake": lake}) as context:
                try:
                    said[name] = [0, str(code.get_sensor_def(name).evaluate_tick(context))]
                except Exception as error:
                    said[name] = [1, str(error)]
print(json.dumps(said))
"""
QUESTIONS = (
    "status", "status --json", "doctor", "doctor fees", "metrics --once", "slo", "ready loans", "ready fees",
    "history loans", "history fees", "audit", "audit fees", "/on-call", "/table/fees", "/table/loans",
    "watch_sources", "replay_after_contract_change",
)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """A way in which a table is damaged.

    Args:
        do: Damages it, given the folders of its log and of the table.
        says: What the fault and its remedy say everywhere, as regular expressions.
    """

    do: Callable[[Path, Path], object]
    says: tuple[str, ...]


def newest(folder: Path) -> Path:
    return max((folder / "_delta_log").glob("*.json"))


def cut(file: Path) -> None:
    """As a torn write leaves it: in the middle of a line."""
    file.write_bytes(file.read_bytes()[:-30])


def shorten(file: Path) -> None:
    """A commit as a torn write leaves it that ends with a line."""
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def of_protocol(folder: Path, protocol: dict[str, object]) -> None:
    newest(folder).with_suffix(".crc").unlink(missing_ok=True)  # which says the protocol, too
    with newest(folder).open("a") as file:
        file.write(json.dumps({"protocol": protocol}) + "\n")


FEATURE = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"], "writerFeatures": ["new"]}
COMMIT = r"\d{20}\.json, its newest commit, is cut or damaged"
DAMAGES = {
    "torn log": Damage(
        lambda log, own: cut(newest(log)), (rf"loans: the log of changes .*_changes/loans/_delta_log/{COMMIT}", "copy")
    ),
    "torn table": Damage(
        lambda log, own: cut(newest(own)), (rf"loans: the Delta table .*/loans/_delta_log/{COMMIT}", "remove it with")
    ),
    "log torn at a line's end": Damage(
        lambda log, own: shorten(newest(log)), (rf"loans: the log of changes .*/loans/_delta_log/{COMMIT}", "copy")
    ),
    "table torn at a line's end": Damage(
        lambda log, own: shorten(newest(own)),
        (rf"loans: the Delta table .*/loans/_delta_log/{COMMIT}", "remove it with"),
    ),
    "empty commit": Damage(
        lambda log, own: newest(own).write_bytes(b""),
        (rf"the Delta table .*/loans/_delta_log/{COMMIT}", "remove it with"),
    ),
    "torn first commit": Damage(
        lambda log, own: cut(min((own / "_delta_log").glob("*.json"))),
        ("0{20}.json is cut or damaged", "remove all of .*/loans: its partitions are then asked for"),
    ),
    "table without commits": Damage(
        lambda log, own: shutil.rmtree(own / "_delta_log"), ("has no commits in _delta_log", "restore .*/_delta_log")
    ),
    "log without commits": Damage(
        lambda log, own: shutil.rmtree(log / "_delta_log"),
        ("the log of changes .* has no commits in _delta_log", "restore .*/_changes/loans/_delta_log"),
    ),
    "removed table": Damage(lambda log, own: shutil.rmtree(own), ("gone", "incload load")),
    "file in its place": Damage(
        lambda log, own: (shutil.rmtree(own), own.write_text("")), ("is no folder", "move the file away")
    ),
    "unknown feature": Damage(
        lambda log, own: of_protocol(own, FEATURE), ("Feature 'new' is not supported", "DROP FEATURE")
    ),
    "unknown protocol": Damage(
        lambda log, own: of_protocol(log, {"minReaderVersion": 9, "minWriterVersion": 9}),
        ("minimum reader version 9", "update incload"),
    ),
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, spark_url: str) -> Clone:
    """Three tables with a loaded day each; ``whole`` is a copy of their lake before its history was collected."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), spark_url)
    for name in (*GOOD, BAD):
        clone.write(f"my_lake/tables/{name}.py", MODULE.replace("payments", name))
        clone.write(f".incload/landing/{name}/{DAY}.csv", HEADER + f"1,Ada,1.00,{DAY}T09:00:00Z,booked\n")
        done = clone.incload("load", name, "--partitions", DAY, **PLAIN)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(lake(clone) / "_loads", ignore_errors=True)
    shutil.copytree(lake(clone), clone.root / "whole")
    return clone


def lake(clone: Clone) -> Path:
    return clone.root / ".incload" / "lake"


def damaged(clone: Clone, do: Callable[[Path, Path], object]) -> None:
    shutil.rmtree(lake(clone) / "_loads", ignore_errors=True)  # not the audit
    folders = [lake(clone) / "_changes" / BAD, lake(clone) / BAD]
    for folder in folders:
        folder.unlink() if folder.is_file() else shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(clone.root / "whole" / folder.relative_to(lake(clone)), folder)
    do(*folders)


def without_privileges() -> None:
    """Lets rights on files count for root, too, in the program that this process becomes."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused to others, who have none


def asked(clone: Clone, *questions: str, **environment: str) -> dict[str, tuple[int, str]]:
    """Exit codes and texts of commands, dashboard pages and sensors, for an account that may not read everything."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(questions)],
        cwd=clone.root,
        env=clone.environment(**PLAIN, COLUMNS="1000", **environment),
        preexec_fn=without_privileges,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not FOREIGN.search(done.stderr), done.stderr
    return {name: (code, text) for name, (code, text) in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_table_is_named_with_its_remedy_and_everything_about_the_others_is_there(
    clone: Clone, kind: str
) -> None:
    damage = DAMAGES[kind]
    damaged(clone, damage.do)
    said = asked(clone, *QUESTIONS)

    assert {name: text for name, (_, text) in said.items() if FOREIGN.search(text)} == {}
    names = ("status", "status --json", "doctor", "metrics --once", "slo", "ready loans", "history loans", "audit")
    for name in (*names, "/on-call", "/table/loans"):
        code, text = said[name][0], " ".join(unescape(said[name][1]).split())  # without line breaks
        assert code == (not name.startswith("/")), (name, text)
        assert BAD in text and all(re.search(words, text) for words in damage.says), (name, text)
    for name in ("doctor fees", "history fees", "audit fees", "watch_sources", "replay_after_contract_change"):
        assert said[name][0] == 0, (name, said[name])
    assert re.search("✓ +table and log readable", said["ready fees"][1])
    rows = {line.split()[0]: line.split()[1:2] for line in said["status"][1].splitlines() if line.split()}
    assert (rows["fees"], rows["rents"]) == (["1"], ["1"]), said["status"]
    metrics = said["metrics --once"][1]
    assert "incload_up 1.0" in metrics
    readable = dict(re.findall(r'incload_readable\{table="(\w+)"\} (\S+)', metrics))
    assert readable == {"fees": "1.0", "loans": "0.0", "rents": "1.0"}
    loaded = dict(re.findall(r'incload_loads_total\{outcome="loaded",table="(\w+)"\} (\S+)', metrics))
    assert (loaded["fees"], loaded["rents"]) == ("1.0", "1.0")
    assert DAY in said["history fees"][1] and DAY in said["history loans"][1]
    assert {"fees", "rents", "loans"} <= set(re.findall(r"^\s*(\w+)", said["slo"][1], re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["_audit", "_decisions"])
def test_a_damaged_audit_or_table_of_decisions_is_named_and_everything_about_the_tables_is_there(
    clone: Clone, folder: str
) -> None:
    damaged(clone, lambda log, own: None)
    commits = lake(clone) / folder / "_delta_log"
    commits.mkdir(parents=True, exist_ok=True)
    torn = max(commits.glob("*.json"), default=commits / f"{0:020d}.json")
    whole = torn.read_bytes() if torn.exists() else b""
    torn.write_bytes(whole[:-30] or b'{"commitInfo":')
    refused = ("audit", "pause fees --until 1h --because moved") if folder == "_audit" else ("check fees",)
    shown = ("status", "status --json", "doctor", "metrics --once", "slo", "history fees", "/on-call", "/table/fees")
    said = asked(clone, *shown, "check fees", "ready fees", *refused)
    torn.write_bytes(whole) if whole else shutil.rmtree(lake(clone) / folder)

    assert {name: text for name, (_, text) in said.items() if FOREIGN.search(text)} == {}
    for question in (*shown, *refused):
        code, text = said[question][0], " ".join(unescape(said[question][1]).split())
        if question != "history fees":
            assert code == (not question.startswith("/")), (question, text)
            assert re.search(f"{torn}.* is cut or damaged", text) and "copy of the lake" in text, (question, text)
    assert said["history fees"][0] == 0 and (folder == "_decisions" or said["check fees"][0] == 0), said
    rows = {line.split()[0]: " ".join(line.split()[1:2]) for line in said["status"][1].splitlines() if line.split()}
    assert {name: rows[name] for name in (*GOOD, BAD)} == dict.fromkeys((*GOOD, BAD), "1")
    metrics = said["metrics --once"][1]
    assert "incload_lake_readable 0.0" in metrics and "incload_up 1.0" in metrics
    assert set(re.findall(r'incload_readable\{table="(\w+)"\} 1.0', metrics)) == {*GOOD, BAD}
    assert {*GOOD, BAD} <= set(re.findall(r"^\s*(\w+)", said["slo"][1], re.MULTILINE))


DOWN = {
    "by_broker": (
        'Kafka("shop", "rents")',
        "the Kafka cluster 'shop' does not answer .*check INCLOAD_KAFKA_SHOP_SERVERS",
    ),
    "by_bucket": ('Files("s3://shop/{window:%Y-%m-%d}.csv")', "no answer for s3://shop .*AWS_ENDPOINT_URL"),
    "by_query": (
        'QueryByTime("shop", "public.rents", modified="updated_at")',
        "shop.public.rents: the database is down .*check that the server runs",
    ),
    BAD: (FILES, "folder .*/landing/loans cannot be read .*give the user who loads the right to read it"),
}
"""Declaration of a source by table, and what is said about it while it is down."""
NOWHERE = "127.0.0.1:1"
ADDRESSES = {
    "INCLOAD_KAFKA": "true", "INCLOAD_KAFKA_SHOP_SERVERS": NOWHERE,
    "INCLOAD_DATABASE_SHOP_URL": f"postgresql://{NOWHERE}/shop",
    "INCLOAD_DATABASE_SHOP_USER": "reader", "INCLOAD_DATABASE_SHOP_PASSWORD": "pa55word",
    "AWS_ENDPOINT_URL": f"http://{NOWHERE}", "AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "pa55word",
}  # fmt: skip


@pytest.fixture
def down(clone: Clone) -> Iterator[None]:
    """The sources are down, one of each kind: their ports are closed, or the folder has no rights."""
    folder = clone.root / ".incload" / "landing" / BAD
    damaged(clone, lambda log, own: None)
    for name in DOWN.keys() - {BAD}:
        text = MODULE.replace(FILES, DOWN[name][0]).replace("Files,", "Files, Kafka, QueryByTime,")
        clone.write(f"my_lake/tables/{name}.py", text.replace("payments", name))
    folder.chmod(0)
    yield
    folder.chmod(0o700)
    for name in DOWN.keys() - {BAD}:
        (clone.root / "my_lake" / "tables" / f"{name}.py").unlink()


@pytest.mark.slow
def test_a_source_that_is_down_is_named_with_its_remedy_and_everything_about_the_others_is_there(
    clone: Clone, down: None
) -> None:
    checks = [f"check {name}" for name in DOWN]
    said = asked(clone, *QUESTIONS, "rebuild", *checks, "/table/by_query", **ADDRESSES)

    assert {name: text for name, (_, text) in said.items() if FOREIGN.search(text) or "pa55word" in text} == {}
    for name, (_, says) in DOWN.items():
        for question in ("status", "status --json", f"check {name}", "watch_sources"):
            code, text = said[question][0], " ".join(said[question][1].split())
            assert code == (question != "watch_sources") and re.search(f"{name}: .*{says}", text), (question, text)
    others = ("doctor", "metrics --once", "slo", "history loans", "history fees", "audit", "audit fees", "rebuild")
    for question in (*others, "/on-call", "/table/loans", "/table/by_query", "watch_sources"):
        assert said[question][0] == 0, (question, said[question])
    rows = {line.split()[0]: " ".join(line.split()[1:2]) for line in said["status"][1].splitlines() if line.split()}
    assert {name: rows[name] for name in (*GOOD, *DOWN)} == dict.fromkeys(GOOD, "1") | dict.fromkeys(DOWN, "?")
    metrics = said["metrics --once"][1]
    readable = dict(re.findall(r'incload_readable\{table="(\w+)"\} (\S+)', metrics))
    assert readable == dict.fromkeys((*GOOD, *DOWN), "1.0")
    assert {"fees", "rents", *DOWN} <= set(re.findall(r"^\s*(\w+)", said["slo"][1], re.MULTILINE))
    assert all(f"{name}: 0 rebuilt, 1 known already" in said["rebuild"][1] for name in (*GOOD, BAD))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1], ids=["log", "table"])
def test_a_torn_newest_commit_can_be_removed_and_a_load_puts_the_table_right(clone: Clone, place: int) -> None:
    damaged(clone, lambda log, own: cut(newest((log, own)[place])))
    torn = newest((lake(clone) / "_changes" / BAD, lake(clone) / BAD)[place])
    away = torn.with_name("away")
    torn.with_suffix(".crc").unlink(missing_ok=True)
    torn.rename(away)
    named = clone.incload("doctor", BAD, **PLAIN)
    away.rename(torn)
    rebuilt = clone.incload("rebuild", BAD, "fees", **PLAIN)
    refused = clone.incload("load", BAD, "--partitions", DAY, **PLAIN)
    torn.unlink()
    loaded = clone.incload("load", BAD, "--partitions", DAY, **PLAIN)
    # a load that ends before the older table is found may be lost with it, and is asked for once more
    again = clone.incload("load", BAD, "--all-missing", **PLAIN)
    healthy = clone.incload("doctor", **PLAIN)

    assert rebuilt.returncode == 1 and str(torn) in rebuilt.stderr
    assert refused.returncode == 1 and str(torn) in refused.stdout + refused.stderr
    assert not FOREIGN.search(refused.stdout + refused.stderr + rebuilt.stdout + rebuilt.stderr)
    assert "fees: 0 rebuilt, 1 known already" in rebuilt.stdout
    assert named.returncode == 1 and f"{BAD} {DAY}: " in named.stdout, named.stdout
    assert (loaded.returncode, again.returncode) == (0, 0), loaded.stdout + again.stdout
    assert healthy.returncode == 0, healthy.stdout
    assert clone.status(BAD, **PLAIN)["rows"] == 1

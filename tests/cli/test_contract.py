"""``incload contract``, run as a person runs it: contracts in a file, what a load would do, exit codes for CI."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import AuditEntry, record
from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}
MODULE = "my_lake/tables/payments.py"
STORED = {
    "payment_id": pa.int64(),
    "payer": pa.string(),
    "amount": pa.decimal128(12, 2),
    "updated_at": pa.timestamp("us", "UTC"),
}
PROPERTIES = {
    "incload.write": "Merge",
    "incload.keys": "payment_id",
    "incload.windows": "0 0 * * * UTC %Y-%m-%d",
}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.of(tmp_path_factory.mktemp("clone"), "sc://localhost:1")


@pytest.fixture
def clone(at: Clone) -> Iterator[Clone]:
    """The README's table, which nobody has loaded, and no Spark."""
    file = at.write(MODULE, readme_files()[MODULE])
    yield at
    file.unlink()


def created(clone: Clone, columns: dict[str, pa.DataType], properties: dict[str, str]) -> DeltaTable:
    """The table as an earlier load would have left it, without rows and log."""
    root = clone.root / ".incload" / "lake" / "payments"
    schema = Schema.from_arrow(pa.schema([pa.field(name, kind) for name, kind in columns.items()]))
    return DeltaTable.create(
        str(root), schema, mode="overwrite", configuration=dict(properties), raise_if_key_not_exists=False
    )


def empty_lake(clone: Clone) -> None:
    for place in ("payments", "_changes/payments"):
        shutil.rmtree(clone.root / ".incload" / "lake" / place, ignore_errors=True)


def changed(clone: Clone, old: str, new: str) -> None:
    module = readme_files()[MODULE]
    assert module.count(old) == 1
    clone.write(MODULE, module.replace(old, new))


def told(clone: Clone, *arguments: str) -> tuple[int, list[dict[str, str | None]]]:
    done = clone.incload("contract", "diff", *arguments, "--json", **PLAIN)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_a_contract_is_shown_for_people_and_written_for_the_next_comparison(clone: Clone, tmp_path: Path) -> None:
    shown = clone.incload("contract", "show", "payments", **PLAIN)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["payer", "string", "allowed", "personal"] in lines
    assert ["amount", "decimal(12,2)", "no", "greater_than", "{'min_value':", "0}"] in lines
    assert "keys payment_id; sequence updated_at; write Merge()" in shown.stdout

    golden = tmp_path / "golden.json"
    written = clone.incload("contract", "show", "--out", str(golden), **PLAIN)
    printed = clone.incload("contract", "show", "--json", **PLAIN)
    assert (written.returncode, written.stderr) == (0, "")
    assert printed.stdout == golden.read_text()
    assert [*json.loads(printed.stdout)["tables"]] == ["payments"]
    same = clone.incload("contract", "diff", "--against", str(golden), **PLAIN)
    assert (same.returncode, same.stdout, same.stderr) == (0, "1 table, no difference\n", "")

    changed(clone, "gt=0", "ge=0")
    validated = clone.incload("contract", "diff", "payments", "--against", str(golden), **PLAIN)
    assert validated.returncode == 2
    assert validated.stdout.startswith(
        "validated from now on  payments.amount: checks changed, was greater_than {'min_value': 0}, "
        "now greater_than_or_equal_to {'min_value': 0}. Rows are validated by the new checks from now on"
    )
    assert validated.stdout.endswith("1 table, 1 difference; none stops loads\n")


def test_what_the_source_sends_otherwise_is_listed_with_the_lines_for_the_contract(clone: Clone) -> None:
    none = clone.incload("contract", "unknown", "payments", **PLAIN)
    rows = [
        {"_window": "2026-01-05", "_kind": "upsert", "_rescued": '{"channel": "web", "utm_a": 1}'},
        {"_window": "2026-01-06", "_kind": "rejected", "_reasons": ["amount: '1.234' is not decimal(12,2)"]},
    ]
    log = clone.root / ".incload" / "lake" / "_changes" / "payments"
    record = pa.struct([("landed_at", pa.timestamp("us", "UTC"))])
    schema = pa.schema(
        {"_window": pa.string(), "_kind": pa.string(), "_rescued": pa.string(), "_reasons": pa.list_(pa.string()),
         "_control": record}
    )  # fmt: skip
    write_deltalake(log, pa.Table.from_pylist(rows, schema), partition_by=["_window", "_kind"])
    changed(clone, "    changes=", '    evolution=Evolution(ignore=["utm_*"]),\n    changes=')
    module = (clone.root / MODULE).read_text()
    clone.write(MODULE, module.replace("import Changes, Files", "import Changes, Evolution, Files"))

    shown = clone.incload("contract", "unknown", "payments", COLUMNS="200", **PLAIN)
    told = clone.incload("contract", "unknown", "payments", "--json", **PLAIN)
    shutil.rmtree(log)

    assert (none.returncode, none.stderr) == (0, "")
    assert none.stdout == "payments: Payment declares all fields of the rows that the log has.\n"
    assert (shown.returncode, shown.stderr) == (2, "")
    _, channel, amount = (" ".join(line.split()) for line in shown.stdout.splitlines())
    assert channel.startswith("channel unknown field 1 2026-01-05 2026-01-05 channel: T.StringType = pa.Field(")
    assert amount.startswith("amount refused type 1 2026-01-06 2026-01-06 none: amount stays decimal(12,2);")
    assert [(one["name"], one["what"], one["since"]) for one in json.loads(told.stdout)] == [
        ("channel", "unknown field", None), ("amount", "refused type", None)
    ]  # fmt: skip
    assert "1.234" not in shown.stdout + told.stdout


@pytest.mark.slow
def test_the_lake_is_compared_without_spark_and_the_exit_code_tells_whether_loads_stop(clone: Clone) -> None:
    code, [new] = told(clone)
    assert (code, new["kind"], new["outcome"]) == (2, "table added", "applied")

    created(clone, STORED, PROPERTIES)
    assert told(clone) == (0, [])

    created(clone, {"old": pa.string(), **{name: kind for name, kind in STORED.items() if name != "payer"}}, PROPERTIES)
    code, found = told(clone, "payments")
    assert (code, [(one["kind"], one["column"], one["outcome"]) for one in found]) == (2, [
        ("column added", "payer", "applied"), ("column dropped", "old", "ignored"), ("renamed?", "old", "ignored"),
    ])  # fmt: skip

    created(clone, STORED | {"amount": pa.decimal128(10, 2)}, PROPERTIES | {"incload.keys": "payer"})
    done = clone.incload("contract", "diff", **PLAIN)
    assert done.returncode == 1
    keys, amount, count = done.stdout.splitlines()
    assert keys.startswith("stops  payments.incload.keys (table): keys changed, was payer, now payment_id. Rule: ")
    assert "Rule: what identifies the rows" in keys and keys.endswith(
        "Remedy: restore the declaration, or give the table another name and load it again."
    )
    assert amount.startswith("stops  payments.amount (table): type widened, was decimal(10,2), now decimal(12,2).")
    assert count == "1 table, 2 differences; 2 stop loads"


@pytest.mark.slow
def test_landed_rows_are_validated_by_a_changed_contract_and_loads_that_would_stop_are_an_error(
    clone: Clone, spark_url: str
) -> None:
    with_spark = {"INCLOAD_SPARK": spark_url, **PLAIN}
    landing = ".incload/landing/payments/2026-01-05.csv"
    empty_lake(clone)
    clone.write(landing, readme_files()[landing])
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", **with_spark).returncode == 0
    lake = {path: path.stat().st_mtime_ns for path in (clone.root / ".incload" / "lake").rglob("*.json")}

    changed(clone, "gt=0", "gt=10")
    done = clone.incload("contract", "diff", "payments", "--replay", "3", **with_spark)
    told = clone.incload("contract", "diff", "payments", "--replay", "3", "--json", **with_spark)
    nameless = clone.incload("contract", "diff", "--replay", "3", **with_spark)
    untouched = {path: path.stat().st_mtime_ns for path in (clone.root / ".incload" / "lake").rglob("*.json")}
    empty_lake(clone)
    (clone.root / landing).unlink()

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[-4:] == [
        "payments: 2 of 5 landed rows of 1 window would now be quarantined:",
        "  2 x amount: not > 10 (for example payment_id=1 in 2026-01-05, payment_id=3 in 2026-01-05)",
        "payments: 0 of 1 quarantined row would now pass",
        "payments: loads of 2026-01-05 would stop, as more rows would be rejected than tolerated",
    ]
    [replayed] = json.loads(told.stdout)["replayed"]
    assert (told.returncode, replayed["refused"], replayed["stopping"]) == (1, 2, ["2026-01-05"])
    assert (nameless.returncode, nameless.stderr) == (1, (
        "Error: --replay without the name of a table. Rule: it reads the rows of the tables that are named. Remedy: "
        "name them: incload contract diff TABLE --replay 3.\n"
    ))  # fmt: skip
    assert untouched == lake


@pytest.mark.slow
def test_a_git_ref_is_compared_as_its_own_code_declares_it_and_leaves_no_trace(clone: Clone) -> None:
    def git(*arguments: str) -> str:
        name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run(["git", *name, *arguments], cwd=clone.root, capture_output=True, text=True, check=True)
        return done.stdout

    git("init", "--quiet", "--initial-branch", "main")
    git("add", ".")
    git("commit", "--quiet", "--message", "the README's table")
    try:
        assert told(clone, "--against", "main") == (0, [])
        changed(clone, "T.LongType", "T.StringType")
        code, found = told(clone, "--against", "HEAD")
        assert (code, [(one["kind"], one["column"], one["was"], one["now"]) for one in found]) == (1, [
            ("type changed", "payment_id", "bigint", "string"),
        ])  # fmt: skip
        clone.write("my_lake/tables/payments.py", "")
        code, [gone] = told(clone, "--against", "main")
        assert (code, gone["kind"], gone["outcome"]) == (2, "table removed", "ignored")
        assert len(git("worktree", "list").splitlines()) == 1
        unknown = clone.incload("contract", "diff", "--against", "nowhere", **PLAIN)
        assert unknown.returncode == 1
        assert unknown.stderr.startswith("Error: there is no file nowhere, and no such commit")

        clone.write(MODULE, "raise ValueError('half a change')\n")
        git("commit", "--quiet", "--all", "--message", "broken")
        clone.write(MODULE, readme_files()[MODULE])
        broken = clone.incload("contract", "diff", "--against", "main", **PLAIN)
        assert broken.returncode == 1
        assert "Error: the contracts at main cannot be shown: " in broken.stderr and "half a change" in broken.stderr
        assert len(git("worktree", "list").splitlines()) == 1
    finally:
        shutil.rmtree(clone.root / ".git")


@pytest.mark.slow
def test_a_table_that_is_neither_declared_nor_in_the_file_is_refused(clone: Clone, tmp_path: Path) -> None:
    golden = tmp_path / "golden.json"
    clone.incload("contract", "show", "--out", str(golden), **PLAIN)
    for against in ("lake", str(golden)):
        done = clone.incload("contract", "diff", "paymets", "--against", against, **PLAIN)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: there is no table 'paymets'. Rule: the tables are payments.")


@pytest.mark.slow
def test_the_history_of_a_contract_has_what_delta_and_the_audit_know(clone: Clone) -> None:
    table = created(clone, {name: kind for name, kind in STORED.items() if name != "payer"}, PROPERTIES)
    table.alter.add_columns(Schema.from_arrow(pa.schema([pa.field("payer", pa.string())])).fields)
    lake = Lake(str(clone.root / ".incload" / "lake"))
    details = {"code_version": "2", "table": "payer", "log": "payer"}
    record(
        lake,
        AuditEntry(action="contract", table="payments", actor="ada", host="etl-1", run_id="a-run", details=details),
    )
    record(lake, AuditEntry(action="contract", table="orders", details=details))

    done = clone.incload("contract", "history", "payments", "--json", **PLAIN)

    assert (done.returncode, done.stderr) == (0, "")
    *_, created_as, added, audited = json.loads(done.stdout)
    assert (created_as["place"], created_as["did"]) == ("table", "CREATE OR REPLACE TABLE")
    assert (added["place"], added["did"], added["what"]) == ("table", "ADD COLUMN", "column added: payer string")
    assert (audited["place"], audited["who"], audited["run_id"]) == ("audit", "ada on etl-1", "a-run")
    assert audited["what"] == "table: payer; log: payer; code version 2"

"""The procedures of the pages: every command is run against one loaded lake, and does and prints what the page says."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from deltalake import write_deltalake

from incload_assets.maintenance.jobs import ALL
from tests.support.documents import DOCS, Page
from tests.support.project_copy import Clone, readme_files
from tests.support.terminal import Terminal, comparable

PROCEDURES = [Page(DOCS / f"{name}.md") for name in ("protection", "operating", "runbooks", "recovery")]
"""In this order: what one leaves behind the next one needs."""
NOT_RUN = {
    "incload game-day": "takes minutes; run by tests/cli/test_drill.py",
    "pg_isready --host $DAGSTER_PG_HOST": "asks a PostgreSQL that holds Dagster's storage",
}
"""Commands that are only read, and why."""
NOT_SHOWN = {
    "incload history orders": "three loads and an undo of another table",
    "incload erase customer 1000030 --plan": "the sample shop's tables",
    "incload compact customers": "the question to a person; tests/cli/test_commands.py has it",
    "incload load orders --all-missing": "another run holds the slot; tests/cli/test_commands.py has it",
}
"""Outputs of pages, by the first command above, that this lake cannot give, and why."""

PAYMENTS, CUSTOMERS = "my_lake/tables/payments.py", "my_lake/tables/customers.py"
PAYMENT = "payment_id,payer,amount,updated_at,state\n{0},Ada,10.00,2026-01-{1:02d}T09:00:00Z,booked\n"
CUSTOMER = '''"""Customers."""

from datetime import timedelta

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Encrypted, Files, Hashed, Subject, incremental_asset


class Customer(pa.DataFrameModel):
    customer_id: T.StringType = pa.Field(nullable=False, metadata={"personal": Hashed(key="crm")})
    name: T.StringType = pa.Field(nullable=False, metadata={"personal": Encrypted(key="crm")})
    email: T.StringType = pa.Field(nullable=True, metadata={"personal": Encrypted(key="crm")})
    seq: T.LongType = pa.Field(nullable=False)


@incremental_asset(
    partitions_def=dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04"),
    source=Files("{landing}/customers/{window:%Y-%m-%d}.json"),
    contract=Customer,
    changes=Changes(keys=["customer_id"], sequence_by=["seq"]),
    subject=Subject("customer", by="customer_id"),
    log_retention=timedelta(days=90),
)
def customers(changes: DataFrame) -> DataFrame:
    """Customers, as last changed."""
    return changes
'''


def order(day: int, number: int, amount: str = "1.00") -> str:
    at = f"2026-01-{day:02d}T09:00:00Z"
    made = {"order_id": number, "customer_id": 7, "status": "new", "ordered_at": at, "updated_at": at}
    return json.dumps(made | {"amount": amount}) + "\n"


def customer(number: int, name: str, seq: int) -> str:
    email = f"{name.split()[0].lower()}@example.org"
    return json.dumps({"customer_id": f"{number}", "name": name, "email": email, "seq": seq}) + "\n"


@pytest.fixture
def terminal(tmp_path: Path, spark_url: str) -> Terminal:
    """The lake of the pages: orders, payments with two rejected rows, and customers who are protected."""
    clone = Clone.of(tmp_path, spark_url)
    [tables] = [block.content for block in Page(DOCS / "tables.md").blocks if "class Order(" in block.content]
    clone.write("my_lake/tables/orders.py", f'"""Orders."""\n\n{tables}')
    clone.write(PAYMENTS, payments())
    clone.write(CUSTOMERS, CUSTOMER)
    for day in range(1, 6):
        deliver(clone, day, order(day, day))
    clone.write(".incload/landing/payments/2026-01-03.csv", PAYMENT.format(9, 3))
    file = ".incload/landing/payments/2026-01-05.csv"
    clone.write(file, readme_files()[file] + "5,Alan,free,2026-01-05T13:00:00Z,booked\n")
    people = customer(1000030, "Ada Lovelace", 1) + customer(1000031, "Alan Turing", 1) + customer(1000031, "Alan", 2)
    clone.write(".incload/landing/customers/2026-01-01.json", people)
    (tmp_path / "secrets").mkdir()
    places = {"/run/secrets": f"{tmp_path}/secrets", "s3://keys": f"{tmp_path}/keys"}
    (tmp_path / "secrets" / "erasure").write_text("e" * 64)
    settings = {"INCLOAD_SAMPLES": "false", "COLUMNS": "300"}
    return Terminal(clone, settings | exported(places), places)


def payments(**replaced: str) -> str:
    """The README's table, which tolerates that half of the rows are rejected."""
    text = readme_files()[PAYMENTS].replace("import Changes, Files,", "import Changes, Files, Quarantine,")
    text = text.replace("    changes=Ch", "    quarantine=Quarantine(max_share=0.5),\n    changes=Ch")
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def exported(places: dict[str, str]) -> dict[str, str]:
    """The settings that the pages export."""
    words = [word for page in PROCEDURES for block in page.blocks for line in block.commands for word in line
             if line[0] == "export"]  # fmt: skip
    found = dict(word.split("=", 1) for word in words if "=" in word)
    for name, place in places.items():
        found = {key: value.replace(name, place) for key, value in found.items()}
    return found


def deliver(clone: Clone, day: int, rows: str) -> None:
    clone.write(f".incload/landing/orders/2026-01-{day:02d}/a.json", rows)


def nothing(terminal: Terminal) -> None:
    """The lake is as the command needs it."""


@dataclass(frozen=True)
class Outcome:
    """What a command of a page comes to.

    Args:
        says: In its output, white space apart.
        code: Its exit code.
        before: What has happened when a person runs it.
        settings: More settings.
    """

    says: str
    code: int = 0
    before: Callable[[Terminal], None] = nothing
    settings: tuple[tuple[str, str], ...] = ()


def orders_of(*days: int, amount: str = "1.00") -> Callable[[Terminal], None]:
    """Files arrive, each with one order more than the ones before."""
    return lambda terminal: [deliver(terminal.clone, day, order(day, day, amount)) for day in days] and None


def loaded(terminal: Terminal) -> None:
    terminal.warm()
    for table in ("customers", "payments", "orders"):
        code, output = terminal.run(["incload", "load", table, "--all-missing"])
        assert code == 0, output


def second_order(terminal: Terminal) -> None:
    deliver(terminal.clone, 5, order(5, 5) + order(5, 50))


def refunds_are_payments(terminal: Terminal) -> None:
    terminal.clone.write(PAYMENTS, payments(**{"gt=0": "ge=-5"}))
    terminal.warm()


def another_function(terminal: Terminal) -> None:
    other = {"gt=0": "ge=-5", "return changes": 'return changes.withColumn("payer", F.upper("payer"))'}
    text = payments(**other).replace("import DataFrame", "import DataFrame\nfrom pyspark.sql import functions as F")
    terminal.clone.write(PAYMENTS, text)
    terminal.warm()


def somebody_elses_table(terminal: Terminal) -> None:
    schema = pa.schema([("payment_id", pa.int64()), ("payer", pa.string()), ("amount", pa.decimal128(12, 2)),
                        ("updated_at", pa.timestamp("us", "UTC"))])  # fmt: skip
    rows = [{"payment_id": number, "payer": "Ada", "amount": number, "updated_at": 0} for number in (1, 2, 3)]
    write_deltalake(terminal.clone.root / "other" / "payments", pa.Table.from_pylist(rows, schema))


def queued(terminal: Terminal, job: str) -> dict[str, object]:
    """The configuration of the run of a job that waits for Dagster's daemon."""
    with DagsterInstance.from_config(str(terminal.clone.root / ".dagster_home")) as instance:
        [run] = instance.get_runs(RunsFilter(job_name=job, statuses=[DagsterRunStatus.QUEUED]))
    return dict(run.run_config["ops"])


def without_dagsters_storage(terminal: Terminal) -> None:
    asked = queued(terminal, "check_reconciliation")
    assert asked == {"reconcile_each_table": {"config": {"tables": ["orders"], "all_partitions": True}}}
    for path in (terminal.clone.root / ".dagster_home").iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def named_as_on_the_page(terminal: Terminal) -> None:
    assert queued(terminal, "vacuum_tables") == {"vacuum_each_table": {"config": {"confirm": ALL}}}
    [archive] = (terminal.clone.root / ".incload" / "backups").glob("dagster-*.zip")
    archive.rename(archive.with_name("dagster-20260103T020000Z.zip"))


OTHER_LAKE = (("INCLOAD_LAKE", "other"),)
UP_TO_DATE = "orders: every partition is up to date with its source."
EXPECTED = {
    "openssl rand -hex 32 > /run/secrets/crm": Outcome(""),
    # protection
    "incload reveal customers customer_id=1000030 --because request 4711": Outcome(
        "email: ada@example.org", before=loaded
    ),
    "incload erase customer 1000030 --plan": Outcome("customers: 1 row of the table, 1 change in 1 window of its log"),
    "incload erase customer 1000030 --because request 4711": Outcome(": 0 with a trace"),
    "incload erase customer 1000030 --fingerprint": Outcome("erasure-"),
    # operating
    "incload status": Outcome("orders 5 0 0"),
    "incload status orders": Outcome("loaded: 2026-01-01..2026-01-05"),
    "incload status orders --json": Outcome('"loaded": ["2026-01-01"'),
    "incload trace orders order_id=1": Outcome("orders order_id=1: the table has the row, by change 1."),
    "incload trace orders order_id=1 --values": Outcome('row: {"order_id": 1, "customer_id": 7'),
    "incload trace orders order_id=1 --json": Outcome('"fate": "in effect"'),
    "incload load orders --partitions 2026-01-01..2026-01-07,2026-01-10": Outcome(
        "orders 8 0 8 3", before=orders_of(6, 7, 10)
    ),
    "incload load orders --all-missing": Outcome("✓ orders 2026-01-08", before=orders_of(8)),
    "incload load orders --outdated": Outcome("orders: this code has validated every other partition."),
    "incload plan orders --partitions 2026-01-06": Outcome("1 read: 1 updated", 2, orders_of(6, amount="2.00")),
    "incload plan orders --all-missing --out plan.json": Outcome("~ 2026-01-06 1 read: 1 updated", 2),
    "incload plan orders --partitions 2026-01-06 --values": Outcome("order_id 6: amount 1.00 → 2.00", 2),
    "incload plan orders --partitions 2026-01-06 --json": Outcome('"updated": 1', 2),
    "incload load orders --plan plan.json": Outcome("1 read, 1 updated"),
    "incload check orders": Outcome("reconciliation passed"),
    "incload quarantine payments": Outcome("amount: not > 0"),
    "incload replay payments --because refunds are payments": Outcome("1 pass", before=refunds_are_payments),
    "incload compact customers": Outcome("removed 1 of 2 changes from the log"),
    "incload load customers --partitions 2026-01-01 --rewrite-compacted": Outcome("✓ customers 2026-01-01"),
    "incload history orders": Outcome("landing 2: is in the table"),
    "incload history payments 2026-01-05": Outcome("replay"),
    "incload pause payments --until 2h --because the bank is migrating": Outcome("payments is paused by ada"),
    "incload resume payments": Outcome("payments is loaded again; it was paused by ada"),
    "incload doctor": Outcome("3 tables examined: Dagster, logs, tables and lake agree"),
    "incload doctor payments": Outcome("1 table examined: Dagster, logs, tables and lake agree"),
    "incload doctor --adopt-lake": Outcome("the lake .incload/lake is adopted for 0 of 3 tables"),
    "incload audit": Outcome("pause payments the bank is migrating"),
    "incload audit payments --since 7d": Outcome("replay payments 2026-01-05"),
    "incload audit --json": Outcome('"because": "request 4711"'),
    "incload adopt payments --dry-run": Outcome(
        "payments: could be adopted, 3 rows", before=somebody_elses_table, settings=OTHER_LAKE
    ),
    "incload adopt payments --because made by the former pipeline": Outcome(
        "payments: adopted, 3 rows", settings=OTHER_LAKE
    ),
    "incload shadow payments": Outcome("rows that differ by column: payer", 2, another_function),
    "incload shadow payments --promote": Outcome("by this code; table and shadow are equal"),
    "incload shadow payments --drop": Outcome("payments: there is no shadow"),
    # runbooks
    "incload load orders --partitions 2026-01-05": Outcome("2 read, 1 inserted", before=second_order),
    "dagster job launch -j check_reconciliation --config-json "
    '{"ops": {"reconcile_each_table": {"config": {"tables": ["orders"], "all_partitions": true}}}}': Outcome(
        "Started Dagster code server"
    ),
    "incload pause orders --until 1h --because a key is in two rows": Outcome("orders is paused by ada"),
    "incload resume orders": Outcome("orders is loaded again"),
    "incload load orders --partitions 2026-01-05 --rewrite-compacted": Outcome("✓ orders 2026-01-05"),
    "dagster instance info": Outcome("run_launcher"),
    "incload rebuild --dry-run": Outcome("orders: 9 could be rebuilt, 0 known", before=without_dagsters_storage),
    "incload rebucket customers": Outcome("customers: is as it is declared, with no buckets."),
    "incload rebuild": Outcome("orders: 9 rebuilt, 0 known already, 0 not proven"),
    "dagster run list --limit 10": Outcome(""),
    "incload load orders --partitions 2026-01-01..2026-01-05": Outcome("orders 5 0 6 0 0 0"),
    "dagster sensor list": Outcome("watch_sources"),
    "incload spark status": Outcome("There is no Spark server"),
    "incload stop": Outcome("Ended: warm runs."),
    "dagster sensor start watch_sources": Outcome("watch_sources"),
    "incload plan orders --all-missing": Outcome(UP_TO_DATE),
    "incload undo orders --partitions 2026-01-05 --plan": Outcome("2026-01-05 1 file"),
    "incload undo orders --partitions 2026-01-05 --because wrong prices": Outcome("1 deleted"),
    "incload release orders --partitions 2026-01-05 --because the prices are right": Outcome("1 inserted"),
    "dagster job launch -j vacuum_tables --config-json "
    '{"ops": {"vacuum_each_table": {"config": {"confirm": "all tables"}}}}': Outcome("Started Dagster code server"),
    "df -h .incload .dagster_home /tmp": Outcome("Mounted on"),
    "du -sh .incload/lake .incload/spark .dagster_home": Outcome(".incload/lake"),
    "incload spark stop": Outcome("There was no Spark server."),
    "incload spark start": Outcome("INCLOAD_SPARK selects another Spark"),
    # recovery
    "incload backup": Outcome(".incload/backups/dagster-"),
    "incload restore-instance .incload/backups/dagster-20260103T020000Z.zip": Outcome(
        "restored dagster-20260103T020000Z.zip", before=named_as_on_the_page
    ),
    "incload undo payments --partitions 2026-01-03 --plan": Outcome("2026-01-03 1 file"),
    "incload undo payments --partitions 2026-01-03 --because wrong amounts": Outcome("1 read, 1 updated"),
    "incload undo payments --before 2026-01-03T12:00 --because deployment of the third of January": Outcome(
        "✓ payments 2026-01-05"
    ),
    "incload release payments --partitions 2026-01-03 --because the amounts are right": Outcome(
        "✓ payments 2026-01-03"
    ),
}
"""Of each command of the procedures, once: a command that several pages have is run where it stands first."""


def commands() -> list[list[str]]:
    """The commands of the procedures, each once, in their order."""
    every = [words for page in PROCEDURES for block in page.blocks for words in block.commands]
    return list({" ".join(words): words for words in every}.values())


def test_every_command_of_a_procedure_has_an_expected_outcome_or_a_reason_why_it_is_not_run() -> None:
    named = {" ".join(words) for words in commands() if words[0] != "export"}
    assert named ^ (EXPECTED.keys() | NOT_RUN.keys()) == set()


@pytest.mark.night
@pytest.mark.timeout(1800)
def test_the_commands_of_the_procedures_do_what_their_pages_say(terminal: Terminal) -> None:
    """All of them, and what is wrong with any is told at the end."""
    wrong, printed = [], dict[str, str]()
    try:
        for words in commands():
            name = " ".join(words)
            if name in NOT_RUN or words[0] == "export":
                continue
            expected = EXPECTED[name]
            expected.before(terminal)
            code, output = terminal.run(words, **dict(expected.settings))
            printed[name] = output
            if (code, expected.says in " ".join(output.split())) != (expected.code, True):
                wrong.append(f"$ {name}\n[{code}] instead of [{expected.code}] {expected.says}\n{output}")
    finally:
        terminal.run(["incload", "stop"])
    for page in PROCEDURES:
        for block, text in page.outcomes:
            names = [" ".join(words) for words in block.commands]
            if names[0] not in NOT_SHOWN:
                there = comparable("\n".join(printed[name] for name in names))
                missing = [line for line in comparable(text.content) if line not in there]
                wrong += [f"$ {names} on {page.name} shows\n" + "\n".join(missing)] if missing else []
    assert "\n\n".join(wrong) == ""

"""The overview of all tables, as the sensor saw them last, or by a look at each."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from incload_assets.progress.instance_values import keep_values
from incload_assets.progress.observed import Observed
from tests.support.load_history import look_now
from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}
TABLE = "my_lake/tables/payments.py"
SEEN = "as watch_sources saw them"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The README's table, which nobody has loaded, and no Spark."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "local")
    clone.write(TABLE, readme_files()[TABLE])
    clone.write(".incload/landing/payments/2026-01-01.csv", "payment_id,payer,amount,updated_at,state\n")
    return clone


@pytest.fixture
def instance(clone: Clone) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(clone.root / ".dagster_home")) as instance:
        yield instance


def observe(instance: dg.DagsterInstance, clone: Clone, **seen: object) -> None:
    """Has the sensor just have seen something of the table that no look would find."""
    long_ago = datetime.now(UTC) - timedelta(minutes=30)
    found = Observed(**{"at": long_ago.isoformat(), "windows": {"loaded": 70, "failed": 1}, "rows": 7_000} | seen)  # type: ignore[arg-type]
    keep_values(instance, {"incload/observed payments": found.as_text()})
    look_now(instance, ["payments"], clone.root)


def row(shown: str) -> list[str]:
    [line] = [line for line in shown.splitlines() if line.startswith("payments ")]
    return line.split()


def test_the_overview_is_what_the_sensor_saw_and_no_code_location_is_loaded_for_it(
    clone: Clone, instance: dg.DagsterInstance
) -> None:
    observe(instance, clone, verdict="late", overdue=60.0, left_out=["x.tmp"], closed=["closed: 3 windows"])
    module = clone.root / TABLE
    right = module.read_text()
    module.write_text("raise RuntimeError\n")
    try:
        shown = clone.incload("status", **PLAIN)
    finally:
        module.write_text(right)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert row(shown.stdout)[:9] == ["payments", "70", "0", "1", "0", "0", "0", "0", "7000"]
    assert " 31 min late " in shown.stdout and "never" in shown.stdout
    assert f"{SEEN} " in shown.stdout and "incload status TABLE looks now" in shown.stdout
    assert "payments: closed: 3 windows" in shown.stdout and "'x.tmp'" in shown.stdout


def test_one_table_and_json_are_looked_at_now(clone: Clone, instance: dg.DagsterInstance) -> None:
    observe(instance, clone)
    one = clone.incload("status", "payments", **PLAIN)
    listed = clone.incload("status", "--json", **PLAIN)
    assert (row(one.stdout)[1], SEEN in one.stdout) == ("0", False)
    assert [len(each["loaded"]) for each in json.loads(listed.stdout)] == [0]


def test_a_table_is_looked_at_if_something_has_happened_to_it_since(clone: Clone, instance: dg.DagsterInstance) -> None:
    observe(instance, clone)
    instance.report_runless_asset_event(dg.AssetMaterialization("payments", partition="2026-01-01"))
    shown = clone.incload("status", **PLAIN)
    assert (row(shown.stdout)[1], shown.returncode) == ("0", 0)


@pytest.mark.parametrize(
    ("seen", "says", "first"),
    [
        ({"trouble": "payments: the disk does not answer"}, "payments: the disk does not answer", "?"),
        ({"unreadable": "payments: its log is damaged"}, "payments: its log is damaged", "70"),
        ({"forgotten": 2}, "the log has loads of 2 partitions of payments that Dagster does not know", "70"),
    ],
)
def test_what_is_wrong_is_said_and_ends_the_command_with_exit_code_1(
    clone: Clone, instance: dg.DagsterInstance, seen: dict[str, object], says: str, first: str
) -> None:
    observe(instance, clone, **seen)
    shown = clone.incload("status", **PLAIN)
    assert (shown.returncode, row(shown.stdout)[1]) == (1, first)
    assert shown.stderr.startswith(f"Error: {says}")


def test_without_a_running_sensor_every_table_is_looked_at(clone: Clone, instance: dg.DagsterInstance) -> None:
    observe(instance, clone)
    [state] = instance.all_instigator_state()
    instance.delete_instigator_state(state.instigator_origin_id, state.selector_id)
    shown = clone.incload("status", **PLAIN)
    assert (row(shown.stdout)[1], SEEN in shown.stdout) == ("0", False)

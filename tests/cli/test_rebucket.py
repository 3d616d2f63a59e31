"""``incload rebucket``, as a person runs it, and as a machine ends it."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}
TABLE = "my_lake/tables/payments.py"
CHANGES = "delete_when=\"state = 'void'\"),"


def killed_when(clone: Clone, is_time: Callable[[], bool]) -> int:
    """Runs the command until it is time to kill it; its exit code."""
    command = clone.command("rebucket", "payments", "--buckets", "4")
    process = subprocess.Popen(command, cwd=clone.root, env=clone.environment(**PLAIN), stdout=subprocess.DEVNULL)
    while process.poll() is None and not is_time():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    return process.wait(60)


@pytest.mark.slow
def test_a_command_that_is_killed_twice_is_repeated_until_the_table_has_the_declared_buckets(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    module = readme_files()[TABLE]
    divided = module.replace(CHANGES, f"{CHANGES}\n    write=Merge(buckets=4),").replace(
        "from incload_assets.assets import", "from incload_assets.assets import Merge,"
    )
    assert divided.count("Merge") == 2
    clone.write(TABLE, module)
    lines = "".join(f"{n},Ada,{n}.00,2026-01-05T09:00:00Z,booked\n" for n in range(1, 60))
    clone.write(".incload/landing/payments/2026-01-05.csv", f"payment_id,payer,amount,updated_at,state\n{lines}")
    assert clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN).returncode == 0
    lake = clone.root / ".incload" / "lake"
    held = DeltaTable(lake / "payments").to_pyarrow_table().sort_by("payment_id")

    asked_too_early = clone.incload("rebucket", "payments", "--buckets", "4", **PLAIN)
    clone.write(TABLE, divided)
    refused = clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN)
    log = lake / "_changes" / "payments"
    before = DeltaTable(log).version()
    first = killed_when(clone, lambda: DeltaTable(log).version() > before)
    still_refused = clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN)
    second = killed_when(clone, lambda: DeltaTable(lake / "payments").metadata().partition_columns == ["_bucket"])
    done = clone.incload("rebucket", "payments", "--buckets", "4", "--because", "it has grown", **PLAIN)
    again = clone.incload("rebucket", "payments", **PLAIN)
    loaded = clone.incload("load", "payments", "--partitions", "2026-01-05", **PLAIN)
    audit = clone.incload("audit", "payments", "--json", **PLAIN)

    assert asked_too_early.returncode == 1 and "declare buckets=4 first" in asked_too_early.stderr
    assert refused.returncode == 1 and "incload rebucket payments" in refused.stdout + refused.stderr
    assert {first, second} <= {-signal.SIGKILL, 0}, "it may have been faster"
    assert still_refused.returncode == 1 or first == 0
    assert done.returncode == 0, done.stderr
    assert second == 0 or ("no buckets became 4 buckets" in done.stdout and "59 rows proven equal" in done.stdout)
    assert again.stdout == "payments: is as it is declared, with 4 buckets.\n"
    assert loaded.returncode == 0, loaded.stdout + loaded.stderr
    now = DeltaTable(lake / "payments").to_pyarrow_table().sort_by("payment_id")
    assert now.drop_columns(["_bucket"]).to_pylist() == held.to_pylist()
    [*_, entry] = [one for one in json.loads(audit.stdout)["entries"] if one["action"] == "rebucket"]
    assert entry["details"] == {"before": "none", "after": "4", "rows": "59"}

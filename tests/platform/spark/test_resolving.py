"""The resolver is watched: what it fetches is told while it does, and it is ended if it takes too long."""

import os
import subprocess
from pathlib import Path

import pytest

from incload_assets.platform.progress import shown_by
from incload_assets.platform.spark.resolving import resolve

SAYS = """
printf '\\tfound io.delta#delta-spark;4.4.0 in central\\n\\tfound org.postgresql#postgresql;42.7.7 in central\\n'
sleep 0.3
printf 'downloading https://host/maven/delta-spark-4.4.0.jar ...\\n'
sleep 0.3
printf 'downloading https://host/maven/postgresql-42.7.7.jar ...\\n'
sleep 0.3
exit 3
"""


def test_each_jar_is_told_with_its_number_and_how_much_there_is(tmp_path: Path) -> None:
    (tmp_path / "delta-spark-4.4.0.jar").write_bytes(b"x" * 9_500_000)
    told: list[str] = []

    with shown_by(told.append):
        code, printed = resolve(["sh", "-c", SAYS], os.environ, tmp_path, 60)

    assert (code, printed.count("\n")) == (3, 4)
    lines = list(dict.fromkeys(line.partition(", about")[0] for line in told))
    assert [line for line in lines if "needed, 0" not in line] == [
        "Jars for Java: resolving dependencies, 2 so far",
        "Jars for Java: fetching 1 of 2, delta-spark-4.4.0.jar, 9.5 MB in total",
        "Jars for Java: fetching 2 of 2, postgresql-42.7.7.jar, 9.5 MB in total",
        "",
    ]
    assert any(line.endswith(" s left") for line in told)


def test_a_resolver_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        resolve(["sleep", "600"], os.environ, tmp_path, 0.1)

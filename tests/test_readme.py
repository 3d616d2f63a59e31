"""The README's own table, made from the README's own files by the README's own command."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.cli.support.scaffold import make_project
from incload_assets.platform.lake import Lake
from tests.support.documents import README, documented_block
from tests.support.project_copy import Clone, readme_files, without_times


@pytest.fixture
def clone(tmp_path: Path, spark_url: str) -> Clone:
    clone = Clone(tmp_path / "my_lake", spark_url)
    make_project(clone.root, sample=False)
    for path, content in readme_files().items():
        clone.write(path, content)
    return clone


@pytest.mark.slow
def test_the_readmes_table_loads_as_the_readme_says(clone: Clone, spark: SparkSession) -> None:
    program, *arguments = documented_block("sh", "incload load payments").split()
    assert program == "incload"

    done = clone.incload(*arguments)

    assert (done.returncode, done.stderr) == (0, "")
    assert without_times(done.stdout) == without_times(documented_block("text", "6 read, 2 inserted"))
    lake = Lake(str(clone.root / ".incload" / "lake"))
    rows = spark.sql(f"SELECT payment_id, payer, amount FROM {lake.sql_name(lake.table_uri(['payments']))}").collect()
    assert sorted((row.payment_id, row.payer, str(row.amount)) for row in rows) == [
        (1, "Ada", "10.00"),
        (2, "Grace", "21.50"),
    ]


def test_the_readmes_table_is_one_small_module() -> None:
    [module] = [content for path, content in readme_files().items() if path.endswith(".py")]
    assert len([line for line in module.splitlines() if line.strip()]) <= 28


def test_the_readme_is_read_in_minutes_and_begins_with_two_commands() -> None:
    assert len(README.text.splitlines()) <= 200
    assert [block.content for block in README.blocks if block.language == "sh"][:2] == [
        "python3 -m venv .venv && .venv/bin/pip install uv &&\n"
        ".venv/bin/uv pip install -p .venv --compile-bytecode -c constraints.txt -e '.[java,samples]' && "
        ".venv/bin/incload dev\n",
        ".ci/test\n",
    ]

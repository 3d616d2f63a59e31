"""Each load gets a session of its own, in UTC, with ANSI casts and Delta, whichever Spark it is."""

import json
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path

import dagster as dg
import pytest
from dagster import materialize
from pyspark.sql.connect.logging import getLogLevel

from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.conf import SESSION_CONF
from incload_assets.platform.spark.resource import SparkResource, open_session

FENCE = "spark.databricks.delta.write.txnAppId"

IN_PROCESS = """
import json, sys
from pathlib import Path
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session

settings = Settings(home=Path(sys.argv[1]), spark="in-process")
table = sys.argv[1] + "/table"
with open_session(settings) as first:
    first.conf.set("spark.databricks.delta.write.txnAppId", "first")
    first.conf.set("spark.databricks.delta.write.txnVersion", "1")
    first.range(3).write.format("delta").save(table)
with open_session(settings) as second:
    told = {
        "rows": second.read.format("delta").load(table).count(),
        "fence of the first": second.conf.get("spark.databricks.delta.write.txnAppId", "none"),
        "time zone": second.conf.get("spark.sql.session.timeZone"),
        "ansi": second.conf.get("spark.sql.ansi.enabled"),
        "remote": "connect" in type(second).__module__,
    }
print(json.dumps(told))
"""

WAITING = """
import incload_assets.platform.spark.resource
from incload_assets.platform.settings import Settings

incload_assets.platform.spark.resource.SILENT_SECONDS = 0.5
with incload_assets.platform.spark.resource.open_session(Settings(spark="sc://127.0.0.1:9")):
    raise AssertionError("there is no such server")
"""

NO_DELTA = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session

SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    with open_session(Settings(home=Path(sys.argv[1]), spark="in-process")):
        print("no error")
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_session_has_delta_speaks_utc_and_ansi_and_writes_instants_as_all_can_read_them(
    spark_settings: Settings, tmp_path: Path
) -> None:
    with open_session(spark_settings) as session:
        session.range(3).write.format("delta").save(str(tmp_path / "table"))
        assert session.read.format("delta").load(str(tmp_path / "table")).count() == 3
        conf = {key: session.conf.get(key) for key in SESSION_CONF}
    assert conf == {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }


def test_the_client_of_a_session_writes_a_log_only_where_one_is_asked_for(
    spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_log = logging.getLogger("pyspark.sql.connect.logging")
    monkeypatch.delenv("SPARK_CONNECT_LOG_LEVEL", raising=False)
    for asked, expected in (("", None), ("warning", logging.WARNING)):
        if asked:
            monkeypatch.setenv("SPARK_CONNECT_LOG_LEVEL", asked)
            monkeypatch.setattr(client_log, "level", expected)
        monkeypatch.setattr(client_log, "disabled", False)  # as Dagster does
        with open_session(spark_settings):
            assert getLogLevel() == expected


def test_the_fence_of_one_load_does_not_reach_another(spark_settings: Settings) -> None:
    with open_session(spark_settings) as first, open_session(spark_settings) as second:
        first.conf.set(FENCE, "orders/2026-01-01")
        assert (first.conf.get(FENCE, "none"), second.conf.get(FENCE, "none")) == ("orders/2026-01-01", "none")
    with open_session(spark_settings) as third:
        assert third.conf.get(FENCE, "none") == "none"


def test_an_error_of_the_load_passes_as_it_is(spark_settings: Settings) -> None:
    error = ValueError("the load's own")
    with pytest.raises(ValueError, match="the load's own") as caught, open_session(spark_settings):
        raise error
    assert caught.value is error


def test_a_server_that_does_not_answer_is_a_transient_fault_that_shows_no_token() -> None:
    with pytest.raises(SparkUnavailable) as caught, open_session(Settings(spark="sc://localhost:9/;token=secret")):
        raise AssertionError("there is no such server")
    assert str(caught.value) == (
        "the Spark server sc://localhost:9/;token=*** does not answer. Remedy: start it, or check INCLOAD_SPARK."
    )
    assert caught.value.transient


def test_an_address_whose_options_lack_their_slash_is_refused_without_its_token() -> None:
    settings = Settings(spark="sc://spark:15002;token=not-to-be-shown")
    told = "is no address of a Spark Connect server"
    with pytest.raises(SparkUnavailable, match=told) as refused, open_session(settings):
        pass
    assert "not-to-be-shown" not in "".join(traceback.format_exception(refused.value))


def test_who_waits_for_a_server_elsewhere_is_told_so() -> None:
    silent = [sys.executable, "-c", WAITING]
    with subprocess.Popen(silent, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        told = next((line for line in waiting.stderr if "has not answered" in line), "nothing")
        waiting.kill()
    assert "the Spark server sc://127.0.0.1:9 has not answered yet; the connection is retried" in told


def test_the_resource_gives_a_session_inside_an_asset(
    spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)
    monkeypatch.setenv("INCLOAD_HOME", str(spark_settings.home))
    monkeypatch.setenv("INCLOAD_SPARK_IDLE_MINUTES", "5")

    @dg.asset
    def three(spark: SparkResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with spark.session() as session:
            return dg.MaterializeResult(metadata={"rows": session.range(3).count()})

    result = materialize([three], resources={"spark": SparkResource()})
    assert result.asset_materializations_for_node("three")[0].metadata["rows"].value == 3


@pytest.mark.integration
def test_an_in_process_spark_serves_loads_one_after_the_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, str(tmp_path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "rows": 3,
        "fence of the first": "none",
        "time zone": "UTC",
        "ansi": "true",
        "remote": False,
    }
    assert not list((tmp_path / "spark").glob("in-process-*")), "the configuration was left on disk"


@pytest.mark.integration
def test_a_spark_without_delta_is_refused_before_a_load_begins(tmp_path: Path) -> None:
    # This process is a Spark Connect client, and pyspark says so to its children.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", NO_DELTA, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout.splitlines()[-1:] == [
        "SparkUnavailable the Spark of INCLOAD_SPARK=in-process has no Delta Lake. Rule: Spark needs the jar "
        "io.delta:delta-spark and spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension. Remedy: start it with "
        "Delta 4.4 for Spark 4.2."
    ]

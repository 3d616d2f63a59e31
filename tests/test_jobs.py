"""Every job of the UI, on a healthy table, where it finds nothing wrong, and on what it is for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from dagster._core.errors import DagsterConfigMappingFunctionError
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import Changes, Files, Merge, Quarantine, Subject, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.change_log.decisions import discarded_rows
from incload_assets.checks import last_results
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.erasure.erasure import fingerprints_of
from incload_assets.platform.dagster_private import BulkActionsFilter, BulkActionStatus
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.progress.audit import chain_of
from incload_assets.progress.progress import progress_of

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04")
ONE, TWO, THREE = "2026-01-01", "2026-01-02", "2026-01-03"
PERSON = "anna-4711"


class Visit(pa.DataFrameModel):
    """A visit of a person."""

    id: T.StringType = pa.Field(nullable=False)
    person: T.StringType = pa.Field(nullable=True)
    price: T.LongType = pa.Field(nullable=True, ge=0)
    seq: T.LongType = pa.Field(nullable=False)


class VisitByChannel(Visit):
    """A visit, with the channel that it was booked through."""

    channel: T.StringType = pa.Field(nullable=True)


CONTENT = {
    ONE: [("a", "bert", 10, 1, {}), ("b", PERSON, 20, 2, {"channel": "web"}), ("bad", "bert", -1, 3, {})],
    TWO: [("a", "bert", 11, 4, {"channel": "phone"}), ("c", "carl", 30, 5, {}), ("worse", "carl", -2, 6, {})],
    THREE: [("c", "carl", None, 7, {"op": "d"}), ("d", "dora", 40, 8, {})],
}
HEALTHY = [("a", "bert", 11), ("b", PERSON, 20), ("d", "dora", 40)]
LOADED = {ONE: "loaded", TWO: "loaded", THREE: "loaded"}
QUIET: dict[str, dict[str, Any]] = {
    "backup_instance": {},
    "check_reconciliation": {},
    "check_tables": {},
    "check_uniqueness": {},
    "compact_files": {"tables": ["visits"]},
    "doctor": {"tables": ["visits"]},
    "expire_history": {},
    "expire_payloads": {"tables": ["visits"], "confirm": "visits"},
    "plan_loads": {"table": "visits", "partitions": [ONE, TWO, THREE]},
    "rebuild_checkpoints": {"tables": ["visits"]},
    "shadow_table": {"table": "visits"},
    "vacuum_tables": {"tables": ["visits"], "confirm": "visits"},
}
"""Jobs that find nothing wrong with a healthy table and leave it as it is, with the configuration of their step."""
NOTICED = ["quarantine", "schema"]
"""The checks that do not pass, of the rejected rows, and of the field `channel`, which is not declared."""
CHANGING = {
    "accept_rows", "adopt_table", "discard_rows", "erase_subject", "fill_columns", "pause_table", "release_partitions",
    "replay_rows", "resume_table", "undo_loads",
}  # fmt: skip
"""Jobs that change something; the tests below say what."""


@dataclass
class Place:
    """A code location with one table, its files and its Dagster instance."""

    root: Path
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    table: Table
    lake: Lake

    def run(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        """One launch of a job of the UI, which may have a form or a step with a configuration; it may fail."""
        definition = self.definitions.resolve_job_def(job)
        of_step = {"ops": {definition.nodes[0].name: {"config": config}}} if config else {}
        return definition.execute_in_process(
            run_config=config if definition.config_mapping else of_step,
            instance=self.instance,
            tags={"user": "ada"},
            raise_on_error=False,
        )

    def does(self, job: str, **config: Any) -> None:
        """A run of a job that succeeds."""
        result = self.run(job, **config)
        assert result.success, f"{job}: {failure_of(result)}"

    def why(self, job: str, **config: Any) -> str:
        """Why a run of a job fails."""
        result = self.run(job, **config)
        assert not result.success
        return failure_of(result)

    def refused(self, job: str, **config: Any) -> str:
        """Why a job is not launched."""
        with pytest.raises((dg.DagsterInvalidConfigError, DagsterConfigMappingFunctionError)) as refusal:
            self.run(job, **config)
        return str(refusal.value.__cause__ or refusal.value)

    def load(self, partition: str, tags: dict[str, str] | None = None) -> str:
        """A load of a partition as from the table's page; why it fails, empty if it does not."""
        result = self.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            asset_selection=[self.table.key],
            partition_key=partition,
            instance=self.instance,
            tags=tags,
            raise_on_error=False,
        )
        return "" if result.success else failure_of(result)

    def requests(self, job: str, *partitions: str, **config: Any) -> None:
        """A job that asks for a backfill, and the runs of it."""
        self.does(job, table="visits", partitions=list(partitions), **config)
        [asked] = self.instance.get_backfills(BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
        assert asked.asset_backfill_data is not None
        wanted = asked.asset_backfill_data.target_subset.get_partitions_subset(self.table.key)
        assert [self.load(key, dict(asked.tags)) for key in wanted.get_partition_keys()] == [""] * len(partitions)
        self.instance.update_backfill(asked.with_status(BulkActionStatus.COMPLETED_SUCCESS))

    def rows(self, *more: str) -> list[tuple[Any, ...]]:
        """The rows of the table."""
        delta = self.lake.delta(self.lake.table_uri(self.table.key.path))
        assert delta is not None
        return sorted(
            tuple(row.values()) for row in delta.to_pyarrow_table(columns=["id", "person", "price", *more]).to_pylist()
        )

    def statuses(self) -> dict[str, str]:
        """The status of each partition."""
        return {w.key: w.status for w in progress_of(self.instance, self.table, self.lake, now())}

    def done(self) -> list[tuple[str, list[str]]]:
        """What the audit says of people."""
        return [(entry.action, list(entry.partitions)) for entry in chain_of(self.lake).entries]

    def deliver(self, day: str, records: list[Any]) -> Path:
        """The file of a day."""
        path = self.root / "landing" / "visits" / f"{day}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [{"id": i, "person": p, "price": price, "seq": seq, **more} for i, p, price, seq, more in records]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """Why a run failed."""
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    return "\n".join(f"{f.user_failure_data.description if f.user_failure_data else f.error}" for f in failures)


def location(place: Path, spark: Settings, instance: dg.DagsterInstance, contract: Any = Visit) -> Place:
    """The code location over what is in a folder."""

    @incremental_asset(
        partitions_def=DAYS,
        source=Files(f"{place}/landing/visits/{{window:%Y-%m-%d}}.json"),
        contract=contract,
        changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
        write=Merge(),
        quarantine=Quarantine(max_share=0.5),
        subject=Subject("guest", by="person"),
        code_version=contract.__name__,
    )
    def visits(changes: DataFrame) -> DataFrame:
        return changes

    settings = Settings(home=place / "home", spark=spark.spark)
    table = table_of(visits)
    assert table is not None
    lake = Lake(str(place / "lake"))
    resources = {"spark": SparkResource(spark=spark.spark, home=str(place / "home")), "lake": lake}
    return Place(place, instance, incremental_definitions([visits], settings, resources), table, lake)


@contextmanager
def loaded(root: Path, spark: Settings) -> Iterator[Place]:
    """A table with three days, late changes, a delete and two rejected rows."""
    (root / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(root / "dagster")) as instance:
        place = location(root, spark, instance)
        for day, records in CONTENT.items():
            place.deliver(day, records)
            assert place.load(day) == ""
        yield place


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory, spark_settings: Settings) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("jobs")
        patch.setenv("INCLOAD_HOME", str(root / "home"))
        patch.setenv("INCLOAD_LAKE", str(root / "lake"))
        with loaded(root, spark_settings) as place:
            yield place


def test_each_job_is_tried_here(healthy: Place) -> None:
    jobs = {name for name in healthy.definitions.get_repository_def().job_names if name != "__ASSET_JOB"}
    assert jobs == {*QUIET, *CHANGING}


def test_jobs_that_only_look_or_tidy_find_nothing_wrong_and_leave_rows_and_statuses_as_they_are(healthy: Place) -> None:
    wrong = {}
    for job, config in QUIET.items():
        result = healthy.run(job, **config)
        shown = last_results(healthy.instance, [healthy.table])["visits"]
        verdicts = [name for name, (_, verdict) in shown.items() if not verdict.passed]
        if not result.success or verdicts != NOTICED or (healthy.rows(), healthy.statuses()) != (HEALTHY, LOADED):
            wrong[job] = (failure_of(result), verdicts, healthy.rows(), healthy.statuses())
    assert wrong == {}


def test_a_window_is_undone_released_and_loaded_by_their_jobs(healthy: Place) -> None:
    healthy.requests("undo_loads", THREE)
    assert (healthy.rows(), healthy.statuses()[THREE]) == ([*HEALTHY[:2], ("c", "carl", 30)], "held")
    assert "held" in healthy.load(THREE)
    healthy.requests("release_partitions", THREE)
    assert (healthy.rows(), healthy.statuses()) == (HEALTHY, LOADED)
    assert healthy.done()[-2:] == [("undo", [THREE]), ("release", [THREE])]


def test_a_paused_table_is_not_loaded_until_it_is_resumed_by_their_jobs(healthy: Place) -> None:
    healthy.does("pause_table", table="visits", until="2h", because="migrating")
    assert "paused" in healthy.load(TWO)
    healthy.does("resume_table", table="visits", because="migrated")
    assert healthy.load(TWO) == ""


def test_rejected_rows_are_decided_about_columns_filled_and_a_person_erased_by_their_jobs(
    healthy: Place, spark_settings: Settings
) -> None:
    about = {"table": "visits", "because": "the price is right"}
    for day in (ONE, TWO):
        healthy.does("accept_rows", partitions=[day], **about)
    healthy.requests("replay_rows", ONE, TWO)
    assert healthy.rows() == sorted([*HEALTHY, ("bad", "bert", -1), ("worse", "carl", -2)])
    [_, number] = [entry.number for entry in chain_of(healthy.lake).entries if entry.action == "accept"]
    healthy.does("accept_rows", undo=number, **about)
    healthy.requests("replay_rows", TWO)
    assert healthy.rows() == sorted([*HEALTHY, ("bad", "bert", -1)])
    assert "confirm" in healthy.refused("discard_rows", partitions=[TWO], **about)
    healthy.does("discard_rows", partitions=[TWO], confirm="visits", **about)
    [discarded] = discarded_rows(healthy.lake, healthy.table).values()
    assert discarded.window == TWO

    later = location(healthy.root, spark_settings, healthy.instance, VisitByChannel)
    later.requests("fill_columns", ONE, TWO)
    assert later.rows("channel") == [
        ("a", "bert", 11, "phone"), ("b", PERSON, 20, "web"), ("bad", "bert", -1, None), ("d", "dora", 40, None),
    ]  # fmt: skip
    assert later.done()[-2:] == [("fill", [ONE]), ("fill", [TWO])]

    person: dict[str, Any] = {
        "kind": "guest",
        "fingerprints": sorted(fingerprints_of([later.table], "guest", PERSON, create=True)),
    }
    later.does("erase_subject", only_plan=True, **person)
    assert PERSON in {row[1] for row in later.rows()}
    assert "confirm" in later.why("erase_subject", because="asked for", **person)
    later.does("shadow_table", table="visits", drop=True)  # an erasure refuses a table with a copy of its rows
    later.does("erase_subject", because="asked for", confirm=person["fingerprints"][0], **person)
    assert later.rows() == [("a", "bert", 11), ("bad", "bert", -1), ("d", "dora", 40)]
    assert later.load(ONE) == ""
    assert later.rows() == [("a", "bert", 11), ("bad", "bert", -1), ("d", "dora", 40)]
    assert ("erase", []) in later.done()


def test_a_table_that_others_made_is_adopted_by_its_job_and_then_loaded(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        place = location(tmp_path, spark_settings, instance)
        kinds = "id string, person string, price bigint, seq bigint"
        theirs = spark.createDataFrame([("a", "bert", 1, 1), ("z", "zoe", 9, 1)], kinds)
        theirs.write.format("delta").save(place.lake.table_uri(place.table.key.path))
        place.deliver(ONE, CONTENT[ONE])
        assert "incload adopt visits" in place.load(ONE)
        place.does("adopt_table", table="visits", dry_run=True)
        assert "incload adopt visits" in place.load(ONE)
        place.does("adopt_table", table="visits", because="it is ours now")
        assert place.load(ONE) == ""
        assert place.rows() == [("a", "bert", 10), ("b", PERSON, 20), ("z", "zoe", 9)]
        place.does("doctor")
        place.does("check_reconciliation")
        place.does("shadow_table", table="visits")


def test_a_wrong_table_or_partition_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    configured: dict[str, dict[str, Any]] = {
        "accept_rows": {"because": "why"}, "adopt_table": {}, "discard_rows": {"because": "why"}, "plan_loads": {},
        "pause_table": {"because": "why", "until": "2h"}, "resume_table": {}, "shadow_table": {},
        **{job: {"partitions": [ONE]} for job in ("undo_loads", "release_partitions", "replay_rows", "fill_columns")},
    }  # fmt: skip
    with dg.DagsterInstance.ephemeral() as instance:
        place = location(tmp_path, Settings(), instance)
        for job, more in configured.items():
            assert "Value at path root:table not in enum type tables got visit" in place.refused(
                job, **more, table="visit"
            ), job
        for job in ("doctor", "rebuild_checkpoints", "compact_files"):
            assert "not in enum type tables got visit" in place.refused(job, tables=["visit"]), job
        for job in ("undo_loads", "release_partitions", "replay_rows", "fill_columns", "plan_loads", "accept_rows"):
            unknown = configured[job] | {"table": "visits", "partitions": [ONE, "2025-12-31"]}
            assert place.refused(job, **unknown) == (
                "visits has no partition '2025-12-31'. Rule: its partitions go from 2026-01-01 to 2026-01-03. "
                "Remedy: name one of these, or a range of them."
            ), job
        assert "names no partition" in place.refused("undo_loads", table="visits", partitions=[])
        assert instance.get_runs() == []

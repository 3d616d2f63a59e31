"""OpenLineage events of loads, made from rows of ``_loads``: a run of a table's job for each attempt at a window.

The events are made by the collector and not by Spark's agent, which does not see what a MERGE into Delta reads, nor
which window was loaded and whether it was proved. The package ``dagster-openlineage`` is not used: it knows neither
sources nor versions nor counts, takes all windows of a Dagster run for one run, and has a cursor of its own beside
``_loads``.
"""

import inspect
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from uuid import UUID, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState, set_producer
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    column_lineage_dataset,
    data_quality_assertions_dataset,
    dataset_type_dataset,
    dataset_version_dataset,
    documentation_dataset,
    documentation_job,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_dataset,
    ownership_job,
    parent_run,
    processing_engine_run,
    schema_dataset,
    storage_dataset,
    tags_dataset,
)
from openlineage.client.generated.test_run import TestExecution, TestRunFacet

from incload_assets.declaration.table import Table
from incload_assets.history.load_row import LoadRow
from incload_assets.ingest.function_output import returns_its_rows
from incload_assets.monitoring.telemetry.datasets import DatasetName, source_datasets, table_dataset
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.sources.upstream.tables import Tables

RUNS = UUID("6f9b1f0e-6d0c-5c2f-9a53-0d6f0f5a7c11")
"""The namespace of the identifiers of runs."""
ENDS: Mapping[str, RunState] = {"loaded": RunState.COMPLETE, "failed": RunState.FAIL, "cancelled": RunState.ABORT}
"""The type of the last event by outcome."""
PARENT = "dagster_run"
"""The name of the job whose runs are Dagster's."""
CLOSE_SECONDS = 5.0

set_producer(f"urn:incload:{version('incload')}")


def send_lineage(tables: Sequence[Table], lake: Lake, rows: Sequence[LoadRow]) -> None:
    """Sends the events of rows by the transport that openlineage-python's own configuration names.

    Raises:
        IncrementalLoadError: The transport does not take them.
    """
    client = OpenLineageClient()
    if client.transport.kind == "console" and not (client.config.transport or {}).get("type"):
        return  # a configuration file without a transport
    client.config.facets.source_code_location.disabled = True  # the address of a repository may have a token in it
    events = list(Lineage(tables, lake, os.environ.get("OPENLINEAGE_NAMESPACE") or "incload").events(rows))
    for number, event in enumerate(events):
        try:
            client.emit(event)
        except Exception as error:
            raise IncrementalLoadError(
                f"the lineage receiver rejected {len(events) - number} of {len(events)} events "
                f"({type(error).__name__})",  # not its text, which may quote an address with a key
                remedy="check OPENLINEAGE_URL and OPENLINEAGE_API_KEY, or the transport in openlineage.yml",
            ) from None
    if not client.close(CLOSE_SECONDS):
        raise IncrementalLoadError(
            f"the lineage receiver did not take all of {len(events)} events within {CLOSE_SECONDS:.0f} s",
            remedy="check that the transport's server is up",
        )


class Lineage:
    """The events of the tables of a code location; ``namespace`` is that of the jobs."""

    def __init__(self, tables: Iterable[Table], lake: Lake, namespace: str) -> None:
        self.namespace = namespace
        self.jobs = {table.name: _TableJob(table, lake, namespace) for table in tables}

    def events(self, rows: Iterable[LoadRow]) -> Iterator[RunEvent]:
        """Two events for each row, its start and its end; rows of other tables are left out."""
        for row in rows:
            if (job := self.jobs.get(row.table)) is not None:
                yield job.start(row)
                yield job.end(row)


def run_id_of(row: LoadRow) -> str:
    """The identifier of the run of an attempt; the same whenever it is made."""
    return str(uuid5(RUNS, f"{row.run_id}/{row.table}/{row.window}/{row.event}"))


class _TableJob:
    """The job that loads a table."""

    def __init__(self, table: Table, lake: Lake, namespace: str) -> None:
        self.table, self.namespace = table, namespace
        self.sources, self.name = source_datasets(table, lake), table_dataset(table, lake)

    def start(self, row: LoadRow) -> RunEvent:
        """The event of the start of an attempt."""
        return RunEvent(
            eventType=RunState.START,
            eventTime=row.began.isoformat(),
            run=Run(run_id_of(row), self._run_facets(row)),
            job=self.job,
            inputs=[InputDataset(name.namespace, name.name) for name in self._inputs],
            outputs=[OutputDataset(self.name.namespace, self.name.name)],
        )

    def end(self, row: LoadRow) -> RunEvent:
        """The event of the end of an attempt; if the window was loaded, with what is known of the table."""
        facets, state = self._run_facets(row), ENDS[row.outcome]
        output = OutputDataset(self.name.namespace, self.name.name)
        inputs = [InputDataset(name.namespace, name.name) for name in self._inputs]
        if row.outcome == "loaded":
            output.facets = {**self.about, **_of_this_load(row)}
            written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
            output.outputFacets = {"outputStatistics": written(row.inserted + row.updated, row.bytes)}
            if tests := _tests(row):
                facets["test"] = TestRunFacet(tests)
            if len(inputs) == 1 and not isinstance(self.table.source, Tables):
                read = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(row.rows_read)
                inputs[0].inputFacets = {"inputStatistics": read}
        else:
            message = f"{row.error_class}: {row.error}".strip(": ") or row.outcome
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "PYTHON")
        run = Run(run_id_of(row), facets)
        return RunEvent(
            eventType=state,
            eventTime=row.ended_at.isoformat(),
            run=run,
            job=self.job,
            inputs=inputs,
            outputs=[output],
        )

    @property
    def _inputs(self) -> list[DatasetName]:
        return sorted({*self.sources})

    def _run_facets(self, row: LoadRow) -> dict[str, RunFacet]:
        window = nominal_time_run.NominalTimeRunFacet(row.window_start.isoformat(), row.window_end.isoformat())
        engine = processing_engine_run.ProcessingEngineRunFacet(version("pyspark"), "Spark", version("incload"))
        facets: dict[str, RunFacet] = {"nominalTime": window, "processing_engine": engine}
        if _is_uuid(row.run_id):
            of = parent_run.Run(row.run_id), parent_run.Job(self.namespace, PARENT)
            facets["parent"] = parent_run.ParentRunFacet(*of)
        return facets

    @cached_property
    def job(self) -> Job:
        """The job with what its declaration says."""
        facets: dict[str, JobFacet] = {"jobType": job_type_job.JobTypeJobFacet("BATCH", "INCLOAD", "LOAD")}
        if self._text:
            facets["documentation"] = documentation_job.DocumentationJobFacet(self._text)
        if self.table.owners:
            owners = [ownership_job.Owner(name) for name in self.table.owners]
            facets["ownership"] = ownership_job.OwnershipJobFacet(owners)
        return Job(self.namespace, self.table.name, facets)

    @property
    def _text(self) -> str:
        return inspect.getdoc(self.table.function) or ""

    @cached_property
    def about(self) -> dict[str, DatasetFacet]:
        """The facets about a table from its declaration."""
        column = schema_dataset.SchemaDatasetFacetFields
        columns = [
            column(field.name, field.dataType.simpleString(), field.metadata.get("comment"), number)
            for number, field in enumerate(self.table.schema.fields, 1)
        ]
        facets: dict[str, DatasetFacet] = {
            "schema": schema_dataset.SchemaDatasetFacet(columns),
            "storage": storage_dataset.StorageDatasetFacet("delta", "parquet"),
            "datasetType": dataset_type_dataset.DatasetTypeDatasetFacet("TABLE"),
        }
        if self._text:
            facets["documentation"] = documentation_dataset.DocumentationDatasetFacet(self._text)
        if self.table.owners:
            owners = [ownership_dataset.Owner(name) for name in self.table.owners]
            facets["ownership"] = ownership_dataset.OwnershipDatasetFacet(owners)
        if personal := sorted(self.table.contract.personal):
            tag = tags_dataset.TagsDatasetFacetFields
            tags = [tag("personal", "true", "CONTRACT", name) for name in personal]
            facets["tags"] = tags_dataset.TagsDatasetFacet(tags)
        if fields := self._fields():
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields)
        return facets

    def _fields(self) -> dict[str, column_lineage_dataset.Fields]:
        """The source's field of each column, if the function returns its rows as they are; none of those it adds."""
        table, column = self.table, column_lineage_dataset.InputField
        if isinstance(table.source, Tables) or not returns_its_rows(table.function):
            return {}
        same = [column_lineage_dataset.Transformation("DIRECT", "IDENTITY")]
        read = {name: self.sources for name in table.columns if name not in table.source.own_fields}
        return {
            name: column_lineage_dataset.Fields(
                [column(of.namespace, of.name, name, same) for of in read.get(name, ())]
            )
            for name in table.columns
        }


def _of_this_load(row: LoadRow) -> dict[str, DatasetFacet]:
    """The version that was reconciled, and the proof.

    The facet of assertions is meant for inputs. Here it is on the output, because that is what was proved; the facet
    ``test`` of the run has the same in the form meant for runs.
    """
    facets: dict[str, DatasetFacet] = {}
    if row.table_version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(row.table_version))
    if tests := _tests(row):
        assertion = data_quality_assertions_dataset.Assertion
        facets["dataQualityAssertions"] = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(  # type: ignore[assignment]
            [
                assertion(
                    assertion=each.type or "",
                    success=each.status == "pass",
                    severity=each.severity,
                    name=each.name,
                    description=each.description,
                    expected=each.expected,
                    actual=each.actual,
                )
                for each in tests
            ]
        )
    return facets


def _tests(row: LoadRow) -> list[TestExecution]:
    """The proof of a load: nothing is pending, and log and table have the same content for the window's keys."""
    proof = json.loads(row.proof)
    if "pending" not in proof:
        return []
    pending, hashes = int(proof["pending"]), (str(proof.get("log_hash")), str(proof.get("table_hash")))
    keys = proof.get("keys")
    return [
        TestExecution(
            "nothing_pending",
            _status(pending == 0),
            "error",
            "row_count",
            f"Changes of the window's {keys} keys that the table lacks",
            "0",
            str(pending),
        ),
        TestExecution(
            "same_content",
            _status(hashes[0] == hashes[1]),
            "error",
            "content_hash",
            f"Content of the {proof.get('present')} rows of the window that are in effect, in the log and in the table",
            *hashes,
        ),
        TestExecution(
            "nothing_quarantined",
            _status(row.quarantined == 0),
            "warn",
            "row_count",
            "Rows that break the contract",
            "0",
            str(row.quarantined),
        ),
    ]


def _status(success: bool) -> str:
    return "pass" if success else "fail"


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False

"""The queue of runs, in which every run of a table has the tags of limits and priorities, whoever starts it."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dagster import AssetKey, DagsterRun, JsonMetadataValue, QueuedRunCoordinator, SubmitRunContext

from incload_assets.platform.dagster_private import BACKFILL_ID_TAG
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError
from incload_assets.progress.run_tags import (
    MAX_RETRIES_TAG,
    PARTITION_TAG,
    PRIORITY_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    REQUESTED_PARTITIONS_TAG,
    RUN_TAGS,
)
from incload_assets.runs.only_daemon import OnlyDaemon


class TableRunCoordinator(QueuedRunCoordinator):
    """Queues runs as Dagster's coordinator does, after it has tagged those that load tables.

    In ``dagster.yaml``::

        run_coordinator:
          module: incload_assets.runs
          class: TableRunCoordinator

    - The tags are those in the metadata of the tables' assets, as the code location declares them. They are set where
      the run has none, so a sensor or a person may give others.
    - A run over a range of partitions is tagged as a backlog. Only one over a single partition, and not of a backfill,
      goes before others.
    - A run is queued without them if the assets cannot be looked up.
    - A run of a table that two code locations declare is failed: they would write to one folder, each in its own way.
    - The daemon that launches the queue's runs is the only one of its instance; another one is refused when it starts.
    """

    _daemon: OnlyDaemon | None = None

    @property
    def dequeue_interval_seconds(self) -> int:
        """The interval in which the queue is gone through; a daemon of Dagster asks for it once, when it starts."""
        if self._daemon is None:
            only = OnlyDaemon(self._instance)
            try:
                only.take()
            except IncrementalLoadError as refused:
                # an exception would not end the daemon of `dagster dev`, which then waits for its parent without a word
                print(f"Error: {refused}", file=sys.stderr, flush=True)
                os._exit(1)
            self._daemon = only
        return super().dequeue_interval_seconds

    @property
    def dequeue_use_threads(self) -> bool:
        """True if runs are launched by threads; the daemon asks for it before it launches any."""
        if self._daemon is not None:
            self._daemon.keep()
        return super().dequeue_use_threads

    def dispose(self) -> None:
        """Ends the claim to be the only daemon, if there is one."""
        if self._daemon is not None:
            self._daemon.give_up()
        super().dispose()

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        """Tags a run and puts it into the queue."""
        run = context.dagster_run
        try:
            if (error := _declared_twice(run, context.workspace)) is not None:
                self._instance.add_run_tags(run.run_id, {MAX_RETRIES_TAG: "0"})
                self._instance.report_run_failed(run, str(error))
                return self._instance.get_run_by_id(run.run_id) or run
            tags = _tags(run, context.workspace)
            if missing := {name: value for name, value in tags.items() if name not in run.tags}:
                self._instance.add_run_tags(run.run_id, missing)
        except Exception:
            logging.getLogger("dagster").exception(f"run {run.run_id} is queued without the tags of its tables")
        return super().submit_run(context)


def _declared_twice(run: DagsterRun, workspace: Any) -> DeclarationError | None:
    """Why a run loads a table that is not of one code location alone; None if it loads none."""
    graph = workspace.asset_graph
    for key in filter(graph.has, _chosen(run, graph)):
        infos = graph.get(key).repo_scoped_asset_infos
        nodes = [info.asset_node for info in infos if info.asset_node.is_materializable]
        if len(nodes) > 1 and any(RUN_TAGS in node.metadata for node in nodes):
            named = " and ".join(node.repository_handle.location_name for node in nodes)
            return DeclarationError(
                f"{key.to_user_string()} is declared in the code locations {named}",
                rule="a table belongs to one code location, as its folder in the lake and its checkpoints do",
                remedy="give one of them another name or key_prefix, or remove it from one location",
            )
    return None


def _tags(run: DagsterRun, workspace: Any) -> dict[str, str]:
    """The tags of the tables that a run loads; of several tables they name all."""
    found = list(_tags_of_tables(run, workspace.asset_graph))
    names = dict.fromkeys(name for tags in found for name in tags)
    tags = {name: ", ".join(dict.fromkeys(each[name] for each in found if name in each)) for name in names}
    first, last = (run.tags.get(bound, run.tags.get(PARTITION_TAG)) for bound in (RANGE_START_TAG, RANGE_END_TAG))
    if first is None or first != last or BACKFILL_ID_TAG in run.tags:
        tags.pop(PRIORITY_TAG, None)
    if tags and first != last:
        tags[REQUESTED_PARTITIONS_TAG] = f"{first}...{last}"
    return tags


def _tags_of_tables(run: DagsterRun, graph: Any) -> Iterator[Mapping[str, str]]:
    for key in _chosen(run, graph):
        value = graph.get(key).metadata.get(RUN_TAGS) if graph.has(key) else None
        if isinstance(value, JsonMetadataValue) and isinstance(value.data, Mapping):
            yield value.data


def _chosen(run: DagsterRun, graph: Any) -> Sequence[AssetKey]:
    """The assets that a run materializes."""
    chosen = run.asset_selection or frozenset()
    if run.asset_selection is None and run.asset_check_selection is None:  # a whole job
        chosen = frozenset(node.key for node in graph.asset_nodes if run.job_name in node.job_names)
    return sorted(chosen)

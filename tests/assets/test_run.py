"""What a step makes of the checkpoint of a partition that it may have tried itself."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.assets.run import _checkpoint
from incload_assets.progress.checkpoint import Checkpoint
from tests.support.tables import DAYS, day, make


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize(
    ("is_loaded", "first", "again", "among_others"),
    [
        (False, Checkpoint(untried=True), Checkpoint(), Checkpoint()),
        (True, Checkpoint("held", clean=True), Checkpoint("held"), Checkpoint("held", clean=True)),
    ],
)
def test_untried_is_what_a_step_loads_alone_and_not_again_and_a_clean_checkpoint_is_one_for_its_first_attempt(
    is_loaded: bool,
    first: Checkpoint,
    again: Checkpoint,
    among_others: Checkpoint,
    instance: dg.DagsterInstance,
    tmp_path: Path,
) -> None:
    table = make(None, tmp_path).table  # type: ignore[arg-type]  # nothing is loaded
    alone, together = [], []

    @dg.asset(key=table.key, partitions_def=DAYS)
    def loads(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        if "looks" in context.run.tags:
            alone.append(_checkpoint(context, table, day(1), alone=True))
            together.append(_checkpoint(context, table, day(1), alone=False))
            if context.retry_number == 0:
                raise dg.RetryRequested(max_retries=1)
        return dg.MaterializeResult(data_version=dg.DataVersion("held"))

    if is_loaded:
        dg.materialize([loads], partition_key=day(1), instance=instance)
    assert dg.materialize([loads], partition_key=day(1), instance=instance, tags={"looks": "yes"}).success
    assert alone == [first, again]
    assert together == [among_others, again]

"""What is removed from Dagster's history, and that nothing else is known less for it."""

from datetime import timedelta
from pathlib import Path

import dagster as dg

from incload_assets.declaration.window import now
from incload_assets.history.collect import collect
from incload_assets.history.expire_runs import expire_history_job, expire_runs
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.dagster_private import CODE_LOCATION_TAG
from incload_assets.platform.settings import Settings
from incload_assets.progress.checkpoint import fingerprints_of
from incload_assets.progress.progress import progress_of
from incload_assets.progress.run_tags import LOADS_NOTHING, TABLE_TAG
from tests.support.guest_table import DAYS, House, guest, house, key


@dg.asset(name="guests", partitions_def=DAYS)
def refused() -> None:
    """A table whose source refuses every load."""
    raise RuntimeError("refused")


@dg.asset(name="guests", partitions_def=DAYS)
def accepted() -> dg.MaterializeResult[None]:
    """The same, when every load succeeds."""
    return dg.MaterializeResult(metadata={"rows_read": 1})


@dg.job(tags=LOADS_NOTHING)
def upkeep() -> None:
    """A job without steps."""


def known(h: House) -> tuple[object, ...]:
    """What is known of the table: statuses with the reasons of failures, checkpoints, and the history of loads."""
    progress = [(w.key, w.status, w.failure, w.failed_run) for w in progress_of(h.instance, h.table, h.lake, now())]
    return progress[:4], fingerprints_of(h.instance, h.table.key), LoadsTable(h.lake).rows()


def test_only_runs_that_nothing_depends_on_are_removed_and_with_all_that_they_left(tmp_path: Path) -> None:
    home, soon = tmp_path / "home", now() + timedelta(minutes=1)
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance, house(tmp_path, Settings(), instance=instance) as h:

        def load(number: int, asset: dg.AssetsDefinition) -> str:
            return dg.materialize(
                [asset], partition_key=key(number), instance=instance, tags={TABLE_TAG: "guests"}, raise_on_error=False
            ).run_id

        for number in (1, 2, 3):
            h.deliver(number, guest("1", day=number))
        superseded, newest, at_rest = (
            load(1, refused), load(2, refused), upkeep.execute_in_process(instance=instance).run_id
        )  # fmt: skip
        former, checkpoint = load(1, accepted), load(4, accepted)
        h.checkpoint(1, 3)
        again = load(3, refused)  # after a load: its status is that of the last attempt

        def left() -> set[str]:
            return {run.run_id for run in instance.get_runs()}

        assert expire_runs(instance, [h.table], h.lake, soon - timedelta(days=1)) == 0
        # what was not collected yet stays, or nobody would ever know of it
        assert expire_runs(instance, [h.table], h.lake, soon) == 1
        assert left() == {superseded, newest, again, former, checkpoint}
        collect(instance, [h.table], h.lake)
        before = known(h)
        # the first look at successful loads was too early for this one; nobody looks at them twice
        assert expire_runs(instance, [h.table], h.lake, soon) == 1
        assert expire_runs(instance, [h.table], h.lake, soon, "another location") == 1
        assert left() == {newest, again, checkpoint}
        assert known(h) == before
        assert collect(instance, [h.table], h.lake) == 0
        assert [status for _, status, *_ in before[0]] == ["loaded", "failed", "failed", "drifted"]  # type: ignore[attr-defined]
        assert {row.run_id for row in LoadsTable(h.lake).rows(runs=[superseded])} == {superseded}
        files = {path.name for folder in ("history/runs", "storage") for path in (home / folder).glob("*")}
        assert not any(name.startswith((superseded, at_rest)) for name in files)
        assert f"{newest}.db" in files


def test_the_job_keeps_what_is_younger_than_the_settings_say(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance, house(tmp_path, Settings(), instance=instance) as h:
        upkeep.execute_in_process(instance=instance)
        job = expire_history_job([h.table])
        assert job.execute_in_process(instance=instance, resources={"lake": h.resources["lake"]}).success
        assert len(instance.get_runs()) == 2


def test_a_code_location_leaves_the_upkeep_of_another_alone(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance, house(tmp_path, Settings(), instance=instance) as h:
        here, there, nowhere = (
            upkeep.execute_in_process(instance=instance, tags=tags).run_id
            for tags in ({CODE_LOCATION_TAG: "here"}, {CODE_LOCATION_TAG: "there"}, {})
        )
        assert expire_runs(instance, [h.table], h.lake, now() + timedelta(minutes=1), "here") == 2
        assert [run.run_id for run in instance.get_runs()] == [there], (here, nowhere)

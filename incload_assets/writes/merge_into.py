"""The fenced MERGE, which executes a merge plan in one commit.

The fence is a Delta transaction identifier ``(app id, number)`` in the MERGE's own commit. Its number is larger than
every number committed when the plan was made, and at least ``ingestion << 20``. Delta rejects or skips a MERGE whose
fence has moved since, and the MERGE counts as lost. So a MERGE that outlives its client (because a shared server
finishes it) changes nothing once a later attempt has committed. See Delta's protocol, *Transaction Identifiers*.
"""

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import BROADCAST_ROWS, ReadView
from incload_assets.declaration.layout import bucket_sql, place_sql, touched_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.declaration.write import BUCKET
from incload_assets.delta.fences import fenced, move_fence
from incload_assets.delta.session import CachedFrame, named, settings
from incload_assets.delta.tables import lost_the_race
from incload_assets.delta.tuning import tune_merge
from incload_assets.platform.sql import literal, quoted
from incload_assets.writes.commit_notes import commit_note
from incload_assets.writes.plan import PENDING, Merged, MergePlan

INGESTION_SHIFT = 20
WORTH_COUNTING_BYTES = 16 * 2**20
"""Size of near rows from which the actions are counted before their MERGE. Spark's estimate for a plan of many joins is
far too high; with exact numbers it broadcasts the actions instead of shuffling the rows."""


def app_id(table: Table, window: Window) -> str:
    """The identifier of the fence for merges of a window."""
    return f"{table.name}/{window.key}"


def is_merged(at: ReadView) -> bool:
    """True if a merge of the present ingestion has been committed under the read view's fence."""
    return at.fence > at.ingestion << INGESTION_SHIFT


def fence_number(at: ReadView) -> int:
    """The number of the next commit under the read view's fence."""
    return max(at.ingestion << INGESTION_SHIFT, at.fence) + 1


def merge(load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
    """Executes a plan in one commit; None if another load committed first, so that a new plan is needed.

    Without pending actions the commit has only the fence. The plan's ``valid`` is evaluated on the rows that the MERGE
    itself reads, which may be newer than the plan's read view.
    """
    pending, held = plan.actions.filter(F.col("_action").isin(*PENDING)), CachedFrame()
    one_file = place_sql(load.table) is None or (at.partitions is not None and len(at.partitions) <= 1)
    values = {
        "spark.databricks.delta.commitInfo.userMetadata": commit_note(at),
        "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": str(not one_file).lower(),
    }
    try:
        if at.near_bytes >= WORTH_COUNTING_BYTES and at.changes <= BROADCAST_ROWS:
            pending = held.of("pending", pending)
            size = pending.agg(
                F.count(F.lit(1)).alias("rows"), F.sum(F.length(F.to_json("_row"))).alias("text")
            ).first()
            assert size is not None
            tune_merge(load.spark, size["rows"], size["text"] or 0)
        fence = fenced(load.spark, at.app_id, fence_number(at))
        with named(pending, "_plan") as actions, fence, settings(load.spark, values):
            counts = load.spark.sql(_statement(load, at, plan, actions)).first()
    except PySparkException as error:
        if lost_the_race(error):
            return None
        raise
    finally:
        held.release()
    if counts is None:
        return None
    return Merged(counts.num_inserted_rows, counts.num_updated_rows, counts.num_deleted_rows)


def bare_merge_fence(load: LoadContext, app_id: str) -> None:
    """Commits only a fence above all earlier ones, so that commits with a number below it are rejected."""
    if load.scratch is not None:  # which no other load commits to
        return

    def send(number: int) -> None:
        nothing = f"MERGE INTO {load.lake.sql_name(load.uri)} AS t USING (SELECT 1 WHERE false) AS s ON false"
        try:
            with fenced(load.spark, app_id, number):
                load.spark.sql(f"{nothing} WHEN MATCHED THEN DELETE").first()
        except PySparkException as error:
            if not lost_the_race(error):
                raise

    move_fence(load.lake, load.uri, app_id, send, table_name=load.table.name)


def matching_sql(table: Table, plan: MergePlan) -> str:
    """SQL over ``t`` (the table's row) and ``s`` (the action): whether the action is for the row."""
    same = [f"t.{quoted(c)} {'=' if c in table.identity else '<=>'} s.{quoted(c)}" for c in plan.identity]
    return " AND ".join([*same, f"({plan.match})"])


def _valid_sql(plan: MergePlan) -> str:
    """SQL over ``t`` and ``s``: whether the row is still the one planned for; false without an action.

    It tests for an action first: Spark would evaluate the content hashes in ``valid`` for every row of the table.
    """
    return f"CASE WHEN s._action IN ({', '.join(map(literal, PENDING))}) THEN {plan.valid} ELSE false END"


def _statement(load: LoadContext, at: ReadView, plan: MergePlan, actions: str) -> str:
    table, on, valid = load.table, matching_sql(load.table, plan), _valid_sql(plan)
    if touched := touched_sql(table, at.partitions, "t"):
        on = f"{touched} AND {on}"
    names = table.schema.names
    assign = ", ".join(f"t.{quoted(c)} = s._row.{quoted(c)}" for c in names)
    new = {quoted(c): f"s._row.{quoted(c)}" for c in names}
    if bucket := bucket_sql(table, "s._row"):
        new[BUCKET] = bucket
    matched = (
        f"WHEN MATCHED AND s._action = 'delete' AND {valid} THEN DELETE "
        f"WHEN MATCHED AND s._action <> 'delete' AND {valid} THEN UPDATE SET {assign} "
    )
    if not at.near_bytes:
        # Delta copies the source of a MERGE to disk unless it only inserts; rows that others have added meanwhile are a
        # conflict, or are left for the reconciliation to find
        matched = ""
    return (
        f"MERGE INTO {load.lake.sql_name(load.uri)} AS t USING {actions} AS s ON {on} {matched}"
        f"WHEN NOT MATCHED AND s._action = 'insert' THEN INSERT ({', '.join(new)}) VALUES ({', '.join(new.values())})"
    )

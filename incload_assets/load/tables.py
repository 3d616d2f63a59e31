"""A column that a contract gains: what the log has from before knows nothing of it, and so leaves it as it is."""

from pyspark.errors import PySparkException

from incload_assets.change_log.change import UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.delta.sql import literal
from incload_assets.delta.tables import lost_the_race, schema_of
from resources.errors import ConcurrentLoad


def leave_unset(load: LoadContext) -> None:
    """Say so in the log, before it has the column: afterwards a NULL looks like a change to NULL.

    For tables whose changes may leave columns as they are. It writes the changes in the log anew, once for a column.

    Raises:
        ConcurrentLoad: Another load committed to the log meanwhile.
    """
    log, table = load.log, load.table
    if not table.by_column or (delta := load.lake.delta(log.uri)) is None:
        return
    known = schema_of(delta).names
    added = [name for name in table.columns if name not in known]
    if not added or "_unset" not in known:  # without it, the log's changes are from when each one set all columns
        return
    names, kinds = (", ".join(map(literal, texts)) for texts in (added, UPSERTS))
    unset = f"array_union(coalesce(_unset, array()), array({names}))"
    try:
        load.spark.sql(f"UPDATE {load.lake.sql_name(log.uri)} SET _unset = {unset} WHERE _kind IN ({kinds})").first()
    except PySparkException as error:
        if not lost_the_race(error):
            raise
        raise ConcurrentLoad(
            f"{table.name}: another load committed to the log while it was told of the new column {', '.join(added)}",
            rule="changes from before a column was declared leave it as it is",
            remedy="the load is tried again",
        ) from error

"""New columns of a contract: earlier changes in the log are marked as leaving them unset."""

from pyspark.errors import PySparkException

from incload_assets.change_log.change import UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.delta.sql import literal
from incload_assets.delta.tables import lost_the_race, schema_of
from resources.errors import ConcurrentLoad


def leave_unset(load: LoadContext) -> None:
    """Marks new columns as unset in all changes of the log, if the table's changes may leave columns unset.

    This happens before the log gets the column: afterwards its NULL would look like a change to NULL. It rewrites the
    changes in the log, once per column.

    Raises:
        ConcurrentLoad: Another load committed to the log meanwhile.
    """
    log, table = load.log, load.table
    if not table.by_column or (delta := load.lake.delta(log.uri)) is None:
        return
    known = schema_of(delta).names
    added = [name for name in table.columns if name not in known]
    if not added or "_unset" not in known:  # a log without this column has only changes that set all columns
        return
    names, kinds = (", ".join(map(literal, texts)) for texts in (added, UPSERTS))
    unset = f"array_union(coalesce(_unset, array()), array({names}))"
    try:
        load.spark.sql(f"UPDATE {load.lake.sql_name(log.uri)} SET _unset = {unset} WHERE _kind IN ({kinds})").first()
    except PySparkException as error:
        if not lost_the_race(error):
            raise
        raise ConcurrentLoad(
            f"{table.name}: another load committed to the log while {', '.join(added)} was marked as a new column",
            rule="changes from before the declaration of a column leave it unset",
            remedy="the load is tried again",
        ) from error

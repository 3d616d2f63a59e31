"""``read_as_of``: a history as it was in effect at one time, and as it was known at another."""

from datetime import datetime

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.writes.as_of import Point, rows_as_of


def read_as_of(
    asset: dg.AssetsDefinition,
    *,
    valid: Point = None,
    known: datetime | None = None,
    spark: SparkSession | None = None,
    lake: Lake | None = None,
) -> DataFrame:
    """The versions of a history in effect at one time, as they were known at another.

    With ``History(known=True)`` the answer for a ``known`` before the newest landing stays the same, whatever is
    loaded, corrected or undone later; an erasure changes it. A landing is known from its instant on, but the table
    shows it when it is merged: seconds later or, after a kill, with the next load.

    Args:
        asset: The asset of a table with ``write=History(…)``.
        valid: A time (aware) in source time; a whole number where the sequence is one; None: all versions.
        known: A time (aware) of the loads, which needs ``History(known=True)``; None: what is known now.
        spark: The session that reads; None: the active one.
        lake: The lake that is read; None: that of the settings.

    Returns:
        The columns of the contract, ``valid_from``, ``valid_to`` and ``is_current``, as they were known.

    Raises:
        IncrementalLoadError: The table does not keep what is asked for, it is not loaded yet, or a time has no zone.

    Example:
        ``read_as_of(prices, valid=datetime(2026, 1, 3, tzinfo=UTC), known=datetime(2026, 1, 5, tzinfo=UTC))``
    """
    table = table_of(asset)
    if table is None:
        raise IncrementalLoadError(
            f"{asset.key.to_user_string()} is no incremental table",
            rule="what was in effect at a time is read from a table with write=History(…)",
            remedy="pass the asset that incremental_asset has made",
        )
    session, place = spark or SparkSession.active(), lake or Lake.of(current_settings())
    return rows_as_of(session, table, place, valid=valid, known=known)

"""Fences: Delta transaction identifiers by which a commit is refused once a later attempt has committed."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from incload_assets.delta.session import settings
from resources.errors import ConcurrentLoad
from resources.lake import Lake

FENCES = 8
"""Most attempts to move a fence."""


def fenced(spark: SparkSession, app_id: str, number: int) -> AbstractContextManager[None]:
    """The fence of one statement: skipped if a number as large was committed, refused if that happens meanwhile."""
    values = {"spark.databricks.delta.write.txnAppId": app_id, "spark.databricks.delta.write.txnVersion": str(number)}
    return settings(spark, values)


def move_fence(
    lake: Lake, uri: str, app_id: str, send: Callable[[int], object], *, table_name: str, odd: bool = False
) -> int:
    """Move a fence to a number above all before it, in a bounded number of attempts.

    Args:
        lake: Where tables are.
        uri: Of the table or its log.
        app_id: Identifier of the fence.
        send: Commits nothing but the fence with the number that it is given, unless another came first.
        table_name: For messages.
        odd: Whether the number has to be odd.

    Returns:
        The number.

    Raises:
        ConcurrentLoad: Others kept moving the fence.
    """
    for _ in range(FENCES):
        number = (lake.transaction_version(uri, app_id) or 0) + 1
        number += odd and number % 2 == 0
        send(number)
        if lake.transaction_version(uri, app_id) == number:  # by this commit, or by another that was sent for it
            return number
    raise ConcurrentLoad(
        f"{table_name}: the fence {app_id} could not be moved in {FENCES} attempts",
        rule="a load moves a fence a bounded number of times",
        remedy="it is tried again later",
    )

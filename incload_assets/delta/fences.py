"""Fences: Delta transaction identifiers. They reject a commit if a later attempt has committed before it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from incload_assets.delta.session import settings
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.platform.lake import Lake

FENCES = 8
"""Maximum number of attempts to move a fence."""


def fenced(spark: SparkSession, app_id: str, number: int) -> AbstractContextManager[None]:
    """Puts statements behind a fence: Delta skips or rejects them if the same or a higher number was committed."""
    values = {"spark.databricks.delta.write.txnAppId": app_id, "spark.databricks.delta.write.txnVersion": str(number)}
    return settings(spark, values)


def move_fence(
    lake: Lake, uri: str, app_id: str, send: Callable[[int], object], *, table_name: str, odd: bool = False
) -> int:
    """Moves a fence to a number above all earlier ones (``odd`` or any), which is returned; or raises ConcurrentLoad.

    ``send`` commits only the fence, with the number passed to it, unless another commit came first.
    """

    def moved() -> int | None:
        number = (lake.transaction_version(uri, app_id) or 0) + 1
        number += odd and number % 2 == 0
        send(number)
        by_this_commit_or_a_retry = lake.transaction_version(uri, app_id) == number
        return number if by_this_commit_or_a_retry else None

    lost = ConcurrentLoad(
        f"{table_name}: the fence {app_id} could not be moved in {FENCES} attempts",
        rule="a load moves a fence a bounded number of times",
        remedy="the load is tried again later",
    )
    return in_attempts(FENCES, moved, lost)

"""Fences: Delta transaction identifiers. They reject a commit if a later attempt has committed before it."""

import json
import re
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from incload_assets.delta.commits import folder_of
from incload_assets.delta.session import settings
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.platform.lake import Lake

FENCES = 8
"""Maximum number of attempts to move a fence."""
FEW = 8
"""Number of identifiers up to which each is asked for by itself."""
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")


def transaction_versions(delta: DeltaTable, app_ids: Collection[str]) -> dict[str, int]:
    """The last versions that writers committed to a table, by their identifiers; without those that never did.

    deltalake goes through the Delta log for each identifier; for many of them it is read once here.
    """
    if len(app_ids) > FEW and (known := _all_versions(delta)) is not None:
        return {app_id: known[app_id] for app_id in app_ids if app_id in known}
    found = ((app_id, delta.transaction_version(app_id)) for app_id in app_ids)
    return {app_id: version for app_id, version in found if version is not None}


def _all_versions(delta: DeltaTable) -> dict[str, int] | None:
    """The last version of each writer; None if the log has another form than commits after an ordinary checkpoint."""
    try:
        files = folder_of(delta)
        names = [info.base_name for info in files.get_file_info(pafs.FileSelector("_delta_log"))]
        checkpoints = [int(name[:20]) for name in names if _CHECKPOINT.fullmatch(name)]
        since = max((version for version in checkpoints if version <= delta.version()), default=-1)
        found: dict[str, int] = {}
        if since >= 0:
            with files.open_input_file(f"_delta_log/{since:020d}.checkpoint.parquet") as file:
                for row in pq.read_table(file, columns=["txn"])["txn"].drop_null().to_pylist():
                    found[row["appId"]] = row["version"]
        for version in range(since + 1, delta.version() + 1):
            with files.open_input_stream(f"_delta_log/{version:020d}.json") as stream:
                actions = [json.loads(line) for line in stream.read().splitlines() if b'"txn"' in line]
            found |= {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    except (OSError, DeltaError, pa.ArrowException, KeyError, ValueError):  # it says so if it is really damaged
        return None
    return found


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

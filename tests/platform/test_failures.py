"""Faults of Spark and storage are told apart, in the words they really come with."""

import pytest

from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.failures import is_connection_lost, translate

UNREACHABLE = (
    "(java.net.ConnectException) listObjects() on s3a://lake/prod/orders/_delta_log: software.amazon.awssdk.core."
    "exception.SdkClientException: Unable to execute HTTP request: Connect to 127.0.0.1:41919 failed"
)
NO_BUCKET = "(org.apache.hadoop.fs.s3a.UnknownStoreException) `s3a://nope/x': getFileStatus: NoSuchBucketException"
FORBIDDEN = (
    "(java.nio.file.AccessDeniedException) s3a://lake/x: software.amazon.awssdk.services."
    "s3.model.S3Exception: (Service: S3, Status Code: 403, Request ID: 1): 403 Forbidden"
)
RELEASED = "[INVALID_HANDLE.SESSION_CLOSED] The handle 1f is invalid. Session was closed. SQLSTATE: HY000"
DISK = "Job aborted due to stage failure: java.io.IOException: No space left on device\n\tat java.base/sun.nio"


@pytest.mark.parametrize(
    ("raised", "kind", "transient", "told"),
    [
        (UNREACHABLE, SparkUnavailable, True, "the object store of bucket 'lake' does not answer"),
        (NO_BUCKET, IncrementalLoadError, False, "the object store refuses bucket 'nope' (UnknownStoreException)"),
        (FORBIDDEN, IncrementalLoadError, False, "the object store refuses bucket 'lake' (AccessDeniedException)"),
        (RELEASED, SparkUnavailable, True, "the connection to Spark was lost (INVALID_HANDLE.SESSION_)"),
        (DISK, SparkUnavailable, True, "a disk is full (No space left on device)"),
    ],
)
def test_a_fault_becomes_one_line(raised: str, kind: type, transient: bool, told: str) -> None:
    meaning = translate(RuntimeError(raised), "orders 2026-01-03")
    assert isinstance(meaning, IncrementalLoadError)
    assert (type(meaning), meaning.transient) == (kind, transient)
    assert meaning.problem == f"orders 2026-01-03: {told}" or meaning.problem.startswith(f"orders 2026-01-03: {told} (")
    assert meaning.remedy and "\n" not in str(meaning)


def test_a_fault_is_recognised_through_what_it_caused() -> None:
    wrapped = ValueError("cannot load")
    wrapped.__cause__ = RuntimeError("status = StatusCode.UNAVAILABLE")
    assert is_connection_lost(wrapped)


def test_any_other_error_stays_what_it_is() -> None:
    error = ValueError("[DIVIDE_BY_ZERO] Division by zero.")
    assert translate(error) is error


def test_an_error_of_this_project_is_not_translated_again() -> None:
    error = IncrementalLoadError("orders: s3a://lake/x: 403 Forbidden")
    assert translate(error) is error

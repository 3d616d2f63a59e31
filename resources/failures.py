"""What goes wrong with Spark and its storage, told apart and said in one line."""

import re

from resources.errors import IncrementalLoadError, SparkUnavailable

_CONNECTION_LOST = re.compile(
    r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|INVALID_HANDLE\.SESSION_|SESSION_(NOT_FOUND|CLOSED|CHANGED)"
    r"|INVALID_HANDLE\.OPERATION_(NOT_FOUND|ABANDONED)|failed to connect to all addresses|Connection reset by peer"
    r"|Socket closed|Stream removed|RST_STREAM|GOAWAY"
    r"|SparkContext (was shut down|has been shutdown)|Cannot call methods on a stopped SparkContext"
    r"|Answer from Java side is empty|Py4JNetworkError|ConnectionRefusedError"
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|not enough (disk )?space", re.IGNORECASE)
_STORAGE_UNREACHABLE = re.compile(
    r"Unable to execute HTTP request|UnknownHostException|ConnectTimeoutException|SocketTimeoutException"
    r"|ApiCallTimeoutException|ApiCallAttemptTimeoutException|AWSServiceThrottledException|SlowDown"
    r"|AWSStatus5\d\dException|Service Unavailable|error sending request|client error \(Connect\)"
)
_STORAGE_REFUSED = re.compile(
    r"AccessDenied(?:Exception)?|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|NoAwsCredentialsException"
    r"|Unable to load credentials|UnknownStoreException|NoSuchBucket|Status Code: 403|Forbidden"
)
_S3_NAME = re.compile(r"s3a?://([^/\s'\"`\]]+)")
_TOKEN = re.compile(r"(token=)[^;\s'\"]+")


def masked(text: str) -> str:
    """``text`` without Spark Connect tokens and without the user part of URLs."""
    return re.sub(r"//[^/@\s]+@", "//***@", _TOKEN.sub(r"\1***", text))


def is_connection_lost(error: BaseException) -> bool:
    """Whether ``error`` says that Spark, or this session of it, is gone; the same load may succeed on a fresh one."""
    return bool(_CONNECTION_LOST.search(_told(error)))


def is_disk_full(error: BaseException) -> bool:
    """Whether ``error`` says that a disk of Spark or of the lake is full."""
    return bool(_DISK_FULL.search(_told(error)))


def is_storage_unreachable(error: BaseException) -> bool:
    """Whether ``error`` says that the object store does not answer."""
    return bool(_STORAGE_UNREACHABLE.search(_told(error)))


def is_storage_refused(error: BaseException) -> bool:
    """Whether ``error`` says that the object store answers, and refuses: credentials, permission, no such bucket."""
    told = _told(error)
    return bool(_STORAGE_REFUSED.search(told)) and ("s3" in told.lower() or "aws" in told.lower())


def translate(error: BaseException, doing: str = "Spark") -> BaseException:
    """The error of this project that ``error`` amounts to, or ``error`` itself where it is none of them.

    Args:
        error: What Spark, its client or the object store raised.
        doing: What was being done, naming table and partition; the message starts with it.

    Returns:
        ``SparkUnavailable`` (transient) for a lost server or session, an unreachable object store or a full disk;
        ``IncrementalLoadError`` where the object store refuses. No message carries a secret.

    Example:
        >>> str(translate(OSError("No space left on device"), "orders 2026-01-03"))[:36]
        'orders 2026-01-03: a disk is full (N'
    """
    if isinstance(error, IncrementalLoadError):
        return error
    if is_disk_full(error):
        return unavailable(
            f"{doing}: a disk is full ({_found(_DISK_FULL, error)})",
            remedy="free space where the lake and Spark's state (INCLOAD_HOME) are; the next run starts over",
        )
    if is_storage_refused(error):
        return IncrementalLoadError(
            f"{doing}: the object store refuses {_bucket(error)} ({_found(_STORAGE_REFUSED, error)})",
            rule="Spark reads and writes with the credentials of the usual AWS provider chain",
            remedy="check the bucket's name, the credentials and their permissions on it",
        )
    if is_storage_unreachable(error):
        return unavailable(
            f"{doing}: the object store of {_bucket(error)} does not answer ({_found(_STORAGE_UNREACHABLE, error)})",
            remedy="check the network and AWS_ENDPOINT_URL; the next run starts over",
        )
    if is_connection_lost(error):
        return unavailable(
            f"{doing}: the connection to Spark was lost ({_found(_CONNECTION_LOST, error)})",
            remedy="run again: a local server is started anew, a configured one must be up",
        )
    return error


def unavailable(problem: str, *, rule: str | None = None, remedy: str | None = None) -> Exception:
    """A ``SparkUnavailable`` with tokens masked."""
    return SparkUnavailable(masked(problem), rule=rule, remedy=remedy)


def not_installed(problem: str, *, rule: str | None = None, remedy: str | None = None) -> Exception:
    """A ``SparkUnavailable`` that trying again does not cure, because something must be installed or configured."""
    error = unavailable(problem, rule=rule, remedy=remedy)
    error.transient = False  # type: ignore[attr-defined]
    return error


def _told(error: BaseException) -> str:
    """Everything an error says about itself and its causes."""
    parts, seen = [], set[int]()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(f"{type(current).__name__}: {current}")
        current = current.__cause__ or current.__context__
    return "\n".join(parts)


def _found(pattern: re.Pattern[str], error: BaseException) -> str:
    match = pattern.search(_told(error))
    return match.group(0) if match else type(error).__name__


def _bucket(error: BaseException) -> str:
    match = _S3_NAME.search(_told(error))
    return f"bucket {match.group(1)!r}" if match else "the lake"

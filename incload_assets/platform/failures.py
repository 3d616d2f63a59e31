"""Translation of errors of Spark and its storage into one line each."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.object_stores import kind_of
from incload_assets.platform.object_stores.s3 import S3


@dataclass(frozen=True)
class Fault:
    """An error of a driver, found by ``pattern`` and, if given, ``about``; and the error of this project for it.

    In its texts ``{found}`` is the match, other fields are named groups of ``pattern`` and values for
    :func:`first_match`.
    """

    pattern: str
    error: type[IncrementalLoadError]
    problem: str
    rule: str = ""
    remedy: str = ""
    about: str = ""


def first_match(faults: Iterable[Fault], text: str, **values: str) -> IncrementalLoadError | None:
    """The error of the first fault that matches a driver's text; None if no fault does."""
    for fault in faults:
        if (found := re.search(fault.pattern, text)) and re.search(fault.about, text, re.IGNORECASE):
            fields = values | {"found": found[0].strip()[:200]} | found.groupdict()
            problem, rule, remedy = (text.format(**fields) for text in (fault.problem, fault.rule, fault.remedy))
            return fault.error(problem, rule=rule or None, remedy=remedy or None)
    return None


_CONNECTION_LOST = (
    r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|INVALID_HANDLE\.SESSION_|SESSION_(NOT_FOUND|CLOSED|CHANGED)"
    r"|INVALID_HANDLE\.OPERATION_(NOT_FOUND|ABANDONED)|failed to connect to all addresses|Connection reset by peer"
    r"|Socket closed|Stream removed|RST_STREAM|GOAWAY"
    r"|SparkContext (was shut down|has been shutdown)|Cannot call methods on a stopped SparkContext"
    r"|Answer from Java side is empty|Py4JNetworkError|ConnectionRefusedError"
)
_ABOUT_STORES = "s3|aws|abfss|azure|gs://|gcs"
_FAULTS = (
    Fault(
        r"(?i)No space left on device|Disk quota exceeded|not enough (disk )?space",
        SparkUnavailable,
        "{doing}: a disk is full ({found})",
        remedy="free space where the lake and Spark's state (INCLOAD_HOME) are; the next run starts over",
    ),
    Fault(
        r"AccessDenied(?:Exception)?|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|NoAwsCredentialsException"
        r"|Unable to load credentials|UnknownStoreException|NoSuchBucket|Status Code: 403|Forbidden"
        r"|lacked the necessary privileges|AuthorizationFailure|AuthenticationFailed|AuthorizationPermissionMismatch"
        r"|ContainerNotFound|FilesystemNotFound",
        IncrementalLoadError,
        "{doing}: the object store refuses {bucket} ({found})",
        rule="Spark and deltalake read and write with the credentials of {provider}",
        remedy="check the bucket's name, the credentials and their permissions on it",
        about=_ABOUT_STORES + "|necessary privileges",
    ),
    Fault(
        r"invalid peer certificate|certificate_unknown|PKIX path [a-z ]+failed|CertificateException"
        r"|SSLPeerUnverifiedException",
        IncrementalLoadError,
        "{doing}: the TLS handshake with the object store of {bucket} fails ({found})",
        rule="the certificate of {endpoint} is signed by an authority in {authorities}, or else by a public one, and "
        "names the endpoint's host",
        remedy="set {authorities} to the file with the certificate of the endpoint's authority; a Spark server "
        "of yours needs it in its trust store",
        about=_ABOUT_STORES,
    ),
    Fault(
        r"Unable to execute HTTP request|UnknownHostException|ConnectTimeoutException|SocketTimeoutException"
        r"|ApiCallTimeoutException|ApiCallAttemptTimeoutException|AWSServiceThrottledException|SlowDown"
        r"|AWSStatus5\d\dException|Service Unavailable|error sending request|client error \(Connect\)",
        SparkUnavailable,
        "{doing}: the object store of {bucket} does not answer ({found})",
        remedy="check the network and {endpoint}; the next run starts over",
    ),
    Fault(
        _CONNECTION_LOST,
        SparkUnavailable,
        "{doing}: the connection to Spark was lost ({found})",
        remedy="run again: a local server is started again, a configured one must be up",
    ),
)
_STORED = re.compile(r"(?:s3a?|abfss|gs)://([^/@\s'\"`\]]+)")
_TOKEN = re.compile(r"(token=)[^;\s'\"]+")


def masked(text: str) -> str:
    """``text`` without Spark Connect tokens and without the user part of URLs."""
    # what stands there in a path of Azure is the name of a container
    return re.sub(r"(?<!abfss:)//[^/@\s]+@", "//***@", _TOKEN.sub(r"\1***", text))


def is_connection_lost(error: BaseException) -> bool:
    """True if Spark, or this session of it, is gone; the same load may succeed on a new one."""
    return bool(re.search(_CONNECTION_LOST, _told(error)))


def translate(error: BaseException, doing: str = "Spark") -> BaseException:
    """The error of this project for ``error``, with no secret in its message, which starts with ``doing``.

    ``SparkUnavailable`` is for a lost server or session, an unreachable object store or a full disk; unknown errors
    stay.
    """
    if isinstance(error, IncrementalLoadError):
        return error
    told = masked(_told(error))
    name = _STORED.search(told) or _STORED.search(doing)
    store = kind_of(name[0] if name else "s3://") or S3
    values = {
        "bucket": f"bucket {name[1]!r}" if name else "the lake",
        "provider": store.provider,
        "endpoint": store.endpoint_variable,
        "authorities": store.authorities_variable,
    }
    return first_match(_FAULTS, told, doing=masked(doing), **values) or error


@contextmanager
def without_texts(doing: str) -> Iterator[None]:
    """A block in which errors of foreign code, whose texts may repeat a value of a row, are replaced by their kind."""
    try:
        yield
    except IncrementalLoadError:
        raise
    except Exception as error:
        problem = f"{doing}: it cannot be read now ({type(error).__name__})"
        raise IncrementalLoadError(problem, remedy="run incload doctor") from None


def unavailable(problem: str, *, rule: str | None = None, remedy: str | None = None) -> Exception:
    """A ``SparkUnavailable`` with tokens masked."""
    return SparkUnavailable(masked(problem), rule=rule, remedy=remedy)


def not_installed(problem: str, *, rule: str | None = None, remedy: str | None = None) -> Exception:
    """A ``SparkUnavailable`` that is not retried, because something must be installed or configured."""
    error = unavailable(problem, rule=rule, remedy=remedy)
    error.transient = False  # type: ignore[attr-defined]
    return error


def _told(error: BaseException) -> str:
    """The texts of an error and its causes."""
    parts, seen = [], set[int]()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(f"{type(current).__name__}: {current}")
        current = current.__cause__ or current.__context__
    return "\n".join(parts)

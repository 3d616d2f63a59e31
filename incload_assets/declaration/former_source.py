"""Compatibility with sources that use the former names of flags and arguments; they work, with a warning."""

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

FLAGS = {
    "sees": "shows",
    "keeps": "retains_absent_keys",
    "moves": "changes_while_read",
    "forgets": "expires_rows",
    "dated": "has_row_times",
    "chooses": "mixes_tables",
}
"""Flags of a source: from former to present name."""


def adapt_former_source(source: type) -> None:
    """Sets the present names of flags and arguments on a class that declares them under their former names.

    Args:
        source: The subclass of ``Source`` that is being defined.
    """
    for former, present in FLAGS.items():
        if former in vars(source):
            setattr(source, present, vars(source)[former])
            _warn(source, f"{former} was renamed to {present}")
    for name in ("detect", "survey"):
        method = vars(source).get(name)
        if method is not None and len(inspect.signature(method).parameters) > 2:
            setattr(source, name, _with_request(method))
            _warn(source, f"{name} now takes one argument, a DetectRequest")
    prepare = vars(source).get("prepare")
    if prepare is not None and len(inspect.signature(prepare).parameters) > 3:
        setattr(source, "prepare", _prepare_with_request(prepare))  # noqa: B010 - a class of any kind
        _warn(source, "prepare now takes a session and a DetectRequest")


def _with_request(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def detect(self: Any, request: Any) -> Any:
        return method(
            self,
            request.table_name,
            request.windows,
            request.ingested,
            first=request.first if request.older else None,
            lake=request.lake,
        )

    return detect


def _prepare_with_request(method: Callable[..., None]) -> Callable[..., None]:
    @wraps(method)
    def prepare(self: Any, spark: Any, request: Any) -> None:
        method(self, spark, request.table_name, request.windows, request.ingested, request.lake)

    return prepare


def _warn(source: type, what: str) -> None:
    warnings.warn(f"{source.__module__}.{source.__qualname__}: {what}", FutureWarning, stacklevel=4)

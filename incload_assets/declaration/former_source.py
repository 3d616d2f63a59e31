"""Sources that were written for the former names of flags and arguments: they go on working, with a warning."""

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
"""The flags of a source: the present name of each former one."""


def adapt_former_source(source: type) -> None:
    """Give a class the present names of the flags and arguments that it declares under the former names.

    Args:
        source: A subclass of ``Source``, as it is defined.
    """
    for former, present in FLAGS.items():
        if former in vars(source):
            setattr(source, present, vars(source)[former])
            _warn(source, f"{former} is {present} now")
    for name in ("detect", "survey"):
        method = vars(source).get(name)
        if method is not None and len(inspect.signature(method).parameters) > 2:
            setattr(source, name, _with_request(method))
            _warn(source, f"{name} takes one argument now, a DetectRequest")


def _with_request(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def detect(self: Any, request: Any) -> Any:
        return method(
            self, request.table_name, request.windows, request.ingested, first=request.first, lake=request.lake
        )

    return detect


def _warn(source: type, what: str) -> None:
    warnings.warn(f"{source.__module__}.{source.__qualname__}: {what}", FutureWarning, stacklevel=4)

"""A Dagster code location that loads tables incrementally with Spark and Delta Lake."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "IncrementalTable":
        from incload_assets.component.incremental_table import IncrementalTable  # seconds that only YAML needs

        return IncrementalTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "IncrementalTable"]

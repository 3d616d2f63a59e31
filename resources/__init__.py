"""Connections of this code location: the Dagster resources of its assets, by the name that an asset asks for."""

from typing import Any

from incload_assets.platform.spark.resource import SparkResource

RESOURCES: dict[str, Any] = {"spark": SparkResource()}
"""Resources to add here are there for every asset, as is ``lake``, which the settings describe."""

"""The code location. It contains every table in ``incload_assets.tables``; to add a table, add a module there."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import cast

import dagster as dg

from incload_assets import tables
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.settings import Settings
from incload_assets.shop.definitions import shop_definitions
from resources import RESOURCES

SAMPLES = f"{tables.__name__}.retail"


def assets_in(package: ModuleType, leave_out: str | None = None) -> list[dg.AssetsDefinition]:
    """The assets of all modules of a package, including nested packages.

    Args:
        package: The package.
        leave_out: Full name of a module or package to leave out.

    Raises:
        DeclarationError: A table's declaration is wrong, or two tables have the same asset key.
    """
    modules = [package, *(import_module(name) for name in _module_names(package, leave_out))]
    try:
        # specs and source assets are not requested, so all results are definitions
        return cast(list[dg.AssetsDefinition], list(dg.load_assets_from_modules(modules)))
    except dg.DagsterInvalidDefinitionError as error:
        raise DeclarationError(
            str(error),
            rule="an asset key belongs to one table",
            remedy="give one of them another name or key_prefix",
        ) from error


def code_location(settings: Settings) -> dg.Definitions:
    """The tables, and the sample shop with its tables if the settings include it."""
    if not settings.samples:
        return incremental_definitions(assets_in(tables, leave_out=SAMPLES), settings, RESOURCES)
    return dg.Definitions.merge(incremental_definitions(assets_in(tables), settings, RESOURCES), shop_definitions())


def _module_names(package: ModuleType, leave_out: str | None) -> Iterator[str]:
    for module in pkgutil.iter_modules(package.__path__, prefix=f"{package.__name__}."):
        if module.name == leave_out:
            continue
        yield module.name
        if module.ispkg:
            yield from _module_names(import_module(module.name), leave_out)


defs = code_location(Settings())

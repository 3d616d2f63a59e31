"""The code location: every table below ``incload_assets.tables``, and the sample shop with its tables."""

import dagster as dg

from incload_assets import tables
from incload_assets.code_location import project_definitions
from incload_assets.platform.settings import Settings
from incload_assets.shop.definitions import shop_definitions
from resources import RESOURCES

SAMPLES = f"{tables.__name__}.retail"


def code_location(settings: Settings) -> dg.Definitions:
    """The tables, and the sample shop with its tables if the settings include it."""
    if not settings.samples:
        return project_definitions(__file__, RESOURCES, settings, leave_out=SAMPLES)
    return dg.Definitions.merge(project_definitions(__file__, RESOURCES, settings), shop_definitions())


defs = code_location(Settings())

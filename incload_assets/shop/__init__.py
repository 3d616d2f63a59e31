"""The sample shop: a seeded generator of realistic files, prices in a database, and events in Kafka."""

from incload_assets.shop.clock import Opening, ShopBusy, founding_date, opening_date, platform_date
from incload_assets.shop.shop import Advance, Shop, Written

__all__ = ["Advance", "Opening", "Shop", "ShopBusy", "Written", "founding_date", "opening_date", "platform_date"]

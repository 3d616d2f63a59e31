"""The sample shop: a seeded generator that behaves like a real one and writes files into the landing area."""

from incload_assets.shop.clock import Opening, ShopBusy, opening_date
from incload_assets.shop.shop import Advance, Shop, Written

__all__ = ["Advance", "Opening", "Shop", "ShopBusy", "Written", "opening_date"]

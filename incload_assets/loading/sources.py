"""The former place of what authors of a source import; :mod:`incload_assets.assets` has it now."""

from incload_assets.loading import __getattr__

__all__ = ["__getattr__"]

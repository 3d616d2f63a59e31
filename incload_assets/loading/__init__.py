"""The former place of what authors import; :mod:`incload_assets.assets` has it now, and these names still work."""

import warnings

from incload_assets import assets

_RENAMED = {"Sees": "Shows"}


def __getattr__(name: str) -> object:
    name = _RENAMED.get(name, name)
    if name not in assets.__all__:
        raise AttributeError(f"incload_assets.loading has no {name!r}; authors import from incload_assets.assets")
    warnings.warn(
        f"write `from incload_assets.assets import {name}`: incload_assets.loading will be removed",
        FutureWarning,
        stacklevel=2,
    )
    return getattr(assets, name)

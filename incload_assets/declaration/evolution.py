"""What a load may change of an existing table when the contract has changed."""

from dataclasses import dataclass
from typing import Literal

Applied = Literal["apply", "stop"]
Unknown = Literal["rescue", "stop"]


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """What happens when a contract, or a source, has other columns than before.

    Args:
        add: A column that the contract has and the table lacks. ``apply``: the load adds it. ``stop``: the load fails.
        widen: A column that the contract declares as a wider type. ``apply``: the load rewrites table and log once.
            ``stop``: the load fails.
        unknown: A field of the source that the contract does not declare. ``rescue``: it is kept beside the row.
            ``stop``: the load fails.

    Example:
        >>> Evolution(widen="apply").add
        'apply'
    """

    add: Applied = "apply"
    widen: Applied = "stop"
    unknown: Unknown = "rescue"

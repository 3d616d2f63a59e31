"""Counts that statements return, and their sums."""

from dataclasses import astuple, dataclass
from operator import add
from typing import Self


@dataclass(frozen=True)
class Counts:
    """Base of dataclasses whose fields are numbers: addition adds field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, astuple(self), astuple(other)))

"""Every write strategy, as the conformance suite runs it: each one every day, its variants in a night run."""

from pathlib import Path

from tests.support.discovery import case_modules
from tests.support.sampling import NIGHT
from tests.writes.case import Case

ALL = list(
    {
        value.name: value
        for module in case_modules("tests.writes", Path(__file__).parent)
        for value in vars(module).values()
        if isinstance(value, Case)
    }.values()
)
DAILY = [case for case in ALL if case.daily]
CASES = ALL if NIGHT else DAILY

"""Every kind of source, as the conformance suite runs it; the formats of files run at night only."""

from inspect import isclass
from pathlib import Path

from tests.sources.case import Case
from tests.support.discovery import case_modules
from tests.support.sampling import NIGHT

ALL: list[type[Case]] = [
    value
    for module in case_modules("tests.sources", Path(__file__).parent)
    for value in vars(module).values()
    if isclass(value) and issubclass(value, Case) and value.__module__ == module.__name__ and hasattr(value, "name")
]
DAILY = [case for case in ALL if case.daily]
CASES = ALL if NIGHT else DAILY

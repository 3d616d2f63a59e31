"""Every way of writing, as the conformance suite runs it."""

from tests.loading.writes.case import Case
from tests.loading.writes.case_merge import MERGE

CASES: list[Case] = [MERGE]

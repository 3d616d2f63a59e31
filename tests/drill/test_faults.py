"""The seven failure modes; ``test_fault_drill`` injects each."""

from tests.drill.faults import FAULTS
from tests.monitoring.test_runbooks import FAILURES


def test_the_seven_faults_have_their_runbooks() -> None:
    assert list(dict.fromkeys(fault.runbook for fault in FAULTS)) == list(FAILURES[:7])
    assert sorted({fault.mode for fault in FAULTS}) == [f"F{number}" for number in range(1, 8)]

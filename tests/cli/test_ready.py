"""``incload ready``, run as a person runs it, in a clone with one table."""

import json
from pathlib import Path

import pytest

from incload_assets.monitoring.readiness.readiness import REQUIREMENTS
from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}
DECLARED = 'changes=Changes(keys=["payment_id"]'
RULES = {"groups": [{"name": "incload", "rules": [{"alert": "TableLate", "expr": "incload_late > 0"}]}]}
MEETS_ALL = """

from incload_assets.monitoring.readiness import readiness

readiness.REQUIREMENTS = tuple(each for each in readiness.REQUIREMENTS if each.name in ("owner", "freshness target"))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The README's table, which somebody owns, in a lake that nothing was loaded into."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "sc://localhost:1")
    module = readme_files()["my_lake/tables/payments.py"]
    for old, new in {
        DECLARED: f'owners=["team:billing"],\n    freshness=Freshness(within=timedelta(hours=6)),\n    {DECLARED}',
        "import Changes, Files": "import Changes, Files, Freshness",
        "import dagster": "from datetime import timedelta\n\nimport dagster",
    }.items():
        module = module.replace(old, new, 1)
    clone.write("my_lake/tables/payments.py", module)
    clone.write("monitoring/rules.yaml", json.dumps(RULES))
    return clone


@pytest.mark.slow
def test_each_requirement_is_shown_with_its_remedy_and_one_that_is_not_met_is_exit_code_1(clone: Clone) -> None:
    rules = {"INCLOAD_MONITORING": "monitoring"}
    shown = clone.incload("ready", "payments", **PLAIN, **rules)
    data = clone.incload("ready", "payments", "--json", **PLAIN, **rules)
    assert (shown.returncode, data.returncode) == (1, 1), shown.stderr + data.stderr
    found = json.loads(data.stdout)
    assert [each["name"] for each in found] == [requirement.name for requirement in REQUIREMENTS]
    passed = {each["name"]: each["passed"] for each in found}
    good, bad = ("owner", "freshness target", "alerts loaded", "encrypted in transit"), ("daemon alive", "undo tested")
    assert ({passed[name] for name in good}, {passed[name] for name in bad}) == ({True}, {False})
    for each in found:
        assert each["name"] in shown.stdout and each["says"] in shown.stdout
        assert bool(each["remedy"]) is not each["passed"]
    [scheduled] = [each["says"] for each in found if each["name"] == "reconciliation scheduled"]
    assert scheduled.startswith("check_reconciliation_schedule") and scheduled.endswith("not running")
    assert f"{sum(passed.values())} of {len(found)} requirements are met" in shown.stdout


@pytest.mark.slow
def test_the_exit_code_is_0_if_all_requirements_are_met(clone: Clone, tmp_path: Path) -> None:
    init = clone.root / "my_lake" / "tables" / "__init__.py"
    before = init.read_text()
    init.write_text(before + MEETS_ALL)
    try:
        done = clone.incload("ready", "payments", **PLAIN)
    finally:
        init.write_text(before)
    assert (done.returncode, done.stderr) == (0, "")
    assert "payments: 2 of 2 requirements are met." in done.stdout

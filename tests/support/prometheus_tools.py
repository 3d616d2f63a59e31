"""``promtool`` and ``amtool``, as tests use them."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

FIRING = 'count by (alertname, severity, table) (ALERTS{alertstate="firing", alertname!="IncloadDeadManSwitch"})'


def run(*command: str | Path) -> str:
    """The output of a tool that has succeeded."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_firing(
    folder: Path,
    rules: Path,
    series: Mapping[str, str],
    firing: Sequence[Mapping[str, str]],
    *,
    minutes: int,
    step: int,
) -> None:
    """Let promtool play time series through rules, and compare the alerts that fire at the end.

    Args:
        folder: For the test's file.
        rules: The rule file.
        series: Values by series, both in promtool's notation, a value each step; ``xN`` repeats up to the end.
        firing: Labels ``alertname``, ``severity`` and ``table`` of the alerts that have to fire, and no others.
        minutes: The end.
        step: Minutes between two values, and between two evaluations.
    """
    expected = [{"labels": _selector(labels), "value": 1} for labels in firing]
    test: dict[str, Any] = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{step}m",
        "tests": [
            {
                "interval": f"{step}m",
                "input_series": [
                    {"series": name, "values": values.replace("xN", f"x{minutes // step + 1}")}
                    for name, values in series.items()
                ],
                "promql_expr_test": [{"expr": FIRING, "eval_time": f"{minutes}m", "exp_samples": expected}],
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(test))
    run("promtool", "test", "rules", file)


def _selector(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"

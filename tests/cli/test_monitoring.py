"""``incload monitoring render``: the files for Prometheus, Alertmanager and Grafana, as a person gets them."""

from pathlib import Path

import pytest
import yaml

from tests.support.project_copy import Clone, readme_files
from tests.support.prometheus_tools import run

PLAIN = {"INCLOAD_SAMPLES": "false"}
FILES = [
    "rules.yaml", "alertmanager.yaml", "prometheus.yaml",
    "dashboards/executive.json", "dashboards/on-call.json", "dashboards/debug.json",
]  # fmt: skip
OWNED = """    contract=Payment,
    criticality="high",
    owners=["ada@example.org"],"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The README's table, with an owner; its Spark is nowhere."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "sc://localhost:1/;token=not-to-be-shown")
    module = readme_files()["my_lake/tables/payments.py"].replace("    contract=Payment,", OWNED)
    clone.write("my_lake/tables/payments.py", module)
    return clone


def test_the_files_are_valid_hold_no_secret_and_are_written_only_if_they_change(clone: Clone, tmp_path: Path) -> None:
    mine = tmp_path / "dashboards" / "mine.json"
    mine.parent.mkdir()
    mine.write_text("{}")
    first = clone.incload("monitoring", "render", str(tmp_path), "--slack-file", "/run/secrets/slack", **PLAIN)
    second = clone.incload("monitoring", "render", str(tmp_path), "--slack-file", "/run/secrets/slack", **PLAIN)

    assert first.stdout.splitlines() == [f"{tmp_path / name}: written" for name in FILES], first.stderr
    assert second.stdout.splitlines() == [f"{tmp_path / name}: unchanged" for name in FILES]
    assert mine.read_text() == "{}"
    assert "SUCCESS" in run("promtool", "check", "config", tmp_path / "prometheus.yaml")
    assert "SUCCESS" in run("amtool", "check-config", tmp_path / "alertmanager.yaml")
    routes = yaml.safe_load((tmp_path / "alertmanager.yaml").read_text())
    assert routes["global"]["slack_api_url_file"] == "/run/secrets/slack"
    assert {"to": "ada@example.org", "send_resolved": True} in [
        one for receiver in routes["receivers"] for one in receiver.get("email_configs", [])
    ]
    [group] = yaml.safe_load((tmp_path / "rules.yaml").read_text())["groups"]
    assert "http://127.0.0.1:3070/docs/runbooks.md#missed-updates" in {
        rule["annotations"]["runbook"] for rule in group["rules"] if "alert" in rule
    }
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any("not-to-be-shown" in text for text in texts)


def test_a_relative_folder_is_one_of_where_the_command_was_given(clone: Clone) -> None:
    done = clone.incload("monitoring", "render", "out", "--no-dashboards", "--runbooks", "http://wiki/r", **PLAIN)
    assert done.returncode == 0, done.stderr
    [group] = yaml.safe_load((clone.root / "out" / "rules.yaml").read_text())["groups"]
    assert all(
        rule["annotations"]["runbook"].startswith("http://wiki/r#") for rule in group["rules"] if "alert" in rule
    )
    assert not (clone.root / "out" / "dashboards").exists()


def test_without_the_extra_the_remedy_is_told(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["grafana_foundation_sdk"] = None\n')
    done = clone.incload("monitoring", "render", str(tmp_path / "out"), PYTHONPATH=str(tmp_path), **PLAIN)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: Grafana's dashboards cannot be made. Rule: they need the package grafana-foundation-sdk. Remedy: "
        "install the extra `observability`, or write --no-dashboards.\n",
    )
    assert not (tmp_path / "out").exists()


def test_a_file_of_somebody_else_is_not_overwritten(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    done = clone.incload("monitoring", "render", str(tmp_path), "--no-dashboards", **PLAIN)
    assert done.returncode == 1
    assert "rules.yaml was not written by incload. Rule: files of others are left alone." in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rules.yaml"]

"""Settings come from the environment, and a wrong one is named."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from incload_assets.platform.settings import Settings, current_settings
from incload_assets.platform.spark.conf import spark_conf


def test_relative_folders_are_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(home=Path("h"), landing="in/", lake="s3://lake/prod/")
    assert (settings.home_root, settings.landing_root, settings.lake_root) == (
        tmp_path / "h",
        str(tmp_path / "in"),
        "s3://lake/prod",
    )


def test_an_environment_has_places_of_its_own_and_shares_the_source(tmp_path: Path) -> None:
    def places(**given: str) -> tuple[str, ...]:
        found = Settings(home=tmp_path, **given)
        roots = (found.landing_root, found.lake_root, str(found.backups_root), found.person_keys_root or "")
        return tuple(root.replace(str(tmp_path), "~") for root in roots)

    given = {"lake": "s3://lake/", "backups": "/backups", "person_keys": "s3://keys/persons"}
    assert places() == ("~/landing", "~/lake", "~/backups", "")
    assert places(**given) == ("~/landing", "s3://lake", "/backups", "s3://keys/persons")
    assert places(environment="staging") == (
        "~/landing", "~/environments/staging/lake", "~/environments/staging/backups", ""
    )  # fmt: skip
    assert places(environment="staging", **given) == (
        "~/landing", "s3://lake/staging", "/backups/staging", "s3://keys/persons-staging"
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a/b", "..", "_lake", "-a", "é", "a b", "a" * 65])
def test_a_name_of_an_environment_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="INCLOAD_ENVIRONMENT has up to 64 letters, digits, - and _"):
        Settings(environment=name)


@pytest.mark.parametrize(
    ("deployment", "environment"),
    [
        ({}, ""),
        ({"DAGSTER_CLOUD_DEPLOYMENT_NAME": "prod", "DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "0"}, ""),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_GIT_BRANCH": "prices"}, "prices"),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_GIT_BRANCH": "fix/prices"}, "fix-prices-15456328"),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_DEPLOYMENT_NAME": "72f9a0"}, "72f9a0"),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "INCLOAD_ENVIRONMENT": "mine"}, "mine"),
    ],
)
def test_a_branch_deployment_of_dagster_has_an_environment_of_its_own(
    deployment: dict[str, str], environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert current_settings().environment == ""
    for name, value in deployment.items():
        monkeypatch.setenv(name, value)
    assert (Settings().environment, current_settings().environment) == (environment, environment)


@pytest.mark.parametrize(
    ("value", "mode"), [("local", "local"), ("in-process", "in-process"), ("sc://spark:15002", "remote")]
)
def test_spark_mode_follows_the_address(value: str, mode: str) -> None:
    assert Settings(spark=value).spark_mode == mode


def test_an_unknown_spark_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_SPARK", "https://spark/;token=secret")
    with pytest.raises(ValidationError, match="is 'local', 'in-process' or the sc://… address") as caught:
        Settings()
    assert "secret" not in str(caught.value)


def test_a_token_does_not_show_when_settings_are_printed() -> None:
    assert "secret" not in repr(Settings(spark="sc://spark:443/;token=secret", spark_conf={"key": "secret"}))


def test_extra_spark_configuration_comes_as_json_and_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_SPARK_CONF", '{"spark.ui.enabled": true, "spark.sql.shuffle.partitions": 64}')
    conf = spark_conf(Settings())
    assert (conf["spark.ui.enabled"], conf["spark.sql.shuffle.partitions"]) == ("true", "64")


def test_extra_extensions_are_added_to_those_of_delta() -> None:
    conf = spark_conf(Settings(spark_conf={"spark.sql.extensions": "org.example.Mine"}))
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.example.Mine"


def test_a_cluster_can_reach_the_driver_and_a_laptop_keeps_it_to_itself() -> None:
    cluster = spark_conf(Settings(spark_conf={"spark.master": "spark://master:7077"}))
    assert "spark.driver.bindAddress" not in cluster
    assert spark_conf(Settings())["spark.driver.bindAddress"] == "127.0.0.1"


def test_s3_configuration_names_the_endpoint_and_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://localhost:9000",
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "the-key",
        "AWS_SECRET_ACCESS_KEY": "the-secret",
    }.items():
        monkeypatch.setenv(name, value)
    conf = spark_conf(Settings(lake="s3://lake"))
    assert {name: value for name, value in conf.items() if ".endpoint" in name or ".ssl" in name or "path" in name} == {
        "spark.hadoop.fs.s3a.endpoint": "http://localhost:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    assert not {"the-key", "the-secret"} & set(conf.values())
    assert not [name for name in spark_conf(Settings(lake="/lake", landing="/landing")) if "s3" in name]


@pytest.mark.parametrize("value", ["https://traces.example/", "javascript:{trace_id}"])
def test_the_address_of_traces_is_a_link_with_a_place_for_the_trace(value: str) -> None:
    assert Settings(trace_url="https://traces.example/{trace_id}").trace_url == "https://traces.example/{trace_id}"
    assert Settings(trace_url="").trace_url is None
    with pytest.raises(ValidationError, match="trace_id"):
        Settings(trace_url=value)


def test_the_place_of_keys_of_persons_is_absolute_and_spark_gets_what_it_takes_to_reach_it(tmp_path: Path) -> None:
    assert Settings(home=tmp_path).person_keys_root is None
    assert Settings(home=tmp_path, person_keys="keys/").person_keys_root == str(Path("keys").absolute())
    assert not Settings(home=tmp_path, person_keys="keys").object_stores
    assert [store.name for store in Settings(home=tmp_path, person_keys="s3://keys/persons").object_stores] == ["S3"]

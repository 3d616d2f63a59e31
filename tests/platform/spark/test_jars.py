"""The jars Spark needs: which, and what is said when they cannot be had."""

from pathlib import Path

import pytest

from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import jars
from incload_assets.platform.spark.jars import coordinates, coordinates_of_samples, jar_paths
from incload_assets.platform.spark.java import java_home

LOCAL = Settings(lake="/lake", landing="/landing", kafka=False)


def test_s3_jars_are_asked_for_only_when_s3_is_configured() -> None:
    assert coordinates(LOCAL) == ("io.delta:delta-spark_4.2_2.13:4.4.0", "org.postgresql:postgresql:42.7.7")
    for settings in (
        Settings(lake="s3://lake"),
        Settings(landing="s3a://landing"),
        Settings(lake="/lake", landing="/landing", s3=True),
    ):
        assert [c.rpartition(":")[0] for c in coordinates(settings)] == [
            "io.delta:delta-spark_4.2_2.13",
            "org.postgresql:postgresql",
            "org.apache.hadoop:hadoop-aws",
            "software.amazon.awssdk:s3",
            "software.amazon.awssdk:s3-transfer-manager",
            "software.amazon.awssdk:sts",
        ]


def test_jars_for_kafka_are_asked_for_only_where_it_is_configured() -> None:
    assert coordinates(Settings(lake="/lake", landing="/landing", kafka=True)) == (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "org.postgresql:postgresql:42.7.7",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    )


@pytest.mark.parametrize("url", ["mysql://db/shop", "mariadb://db.example:3307/shop?ssl-mode=REQUIRED"])
def test_the_driver_of_mysql_is_asked_for_only_where_such_a_database_is_configured(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", "postgresql://db/shop")
    assert coordinates(LOCAL)[2:] == ()
    monkeypatch.setenv("INCLOAD_DATABASE_WEB_SHOP_URL", url)
    assert coordinates(LOCAL)[2:] == ("org.mariadb.jdbc:mariadb-java-client:3.5.6",)
    monkeypatch.delenv("INCLOAD_DATABASE_WEB_SHOP_URL")
    assert coordinates(LOCAL.model_copy(update={"mysql": True}))[2:] == jars.MYSQL


def test_the_jar_for_avro_is_asked_for_only_where_it_is_configured() -> None:
    avro = "org.apache.spark:spark-avro_2.13:4.2.0"
    with_avro = coordinates(Settings(lake="/lake", landing="/landing", avro=True))
    assert with_avro == (*coordinates(Settings(lake="/lake", landing="/landing")), avro)


def test_the_samples_kafka_is_asked_for_by_default_and_spark_goes_without_if_it_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("INCLOAD_KAFKA")
    by_default = Settings(lake="/lake", landing="/landing")
    assert coordinates_of_samples(by_default) == jars.KAFKA
    for settings in (Settings(kafka=False), Settings(kafka=True), Settings(samples=False)):
        assert coordinates_of_samples(settings) == ()

    monkeypatch.setattr(jars, "KAFKA", ("org.apache.spark:spark-sql-kafka-of-no-release:0.0.0",))
    at_nobodys = by_default.model_copy(update={"maven_repositories": "http://127.0.0.1:9/maven"})
    assert jar_paths(at_nobodys, java_home(LOCAL)) == jar_paths(LOCAL, java_home(LOCAL))


def test_the_jar_folder_holds_delta_and_nothing_that_spark_has() -> None:
    fetched = {path.name.partition("_")[2].rpartition("-")[0] for path in jar_paths(LOCAL, java_home(LOCAL))}
    assert {"delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "postgresql"} <= fetched
    assert not fetched & set(jars._shipped())
    assert "hadoop-aws" not in fetched


def test_no_maven_gives_one_line_that_names_the_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "DELTA", ("io.delta:delta-spark-of-no-release:0.0.0",))  # so that no local cache has it
    settings = Settings(lake="/lake", landing="/landing", maven_repositories="http://me:secret@127.0.0.1:9/maven")
    with pytest.raises(SparkUnavailable) as caught:
        jar_paths(settings, java_home(LOCAL))
    told = str(caught.value)
    assert told.startswith("Spark's jars (io.delta:delta-spark-of-no-release:0.0.0 and 1 more) could not be fetched")
    assert "name a mirror in INCLOAD_MAVEN_REPOSITORIES, or point INCLOAD_JARS at a folder" in told
    assert ("\n" in told, "secret" in told, caught.value.transient) == (False, False, True)
    assert [path.suffix for path in sorted((tmp_path / "incload" / "jars").iterdir())] == [".lock", ".log"]
    assert "secret" not in next((tmp_path / "incload" / "jars").glob("*.log")).read_text()


def test_a_given_jar_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    jar = tmp_path / "delta-spark_4.2_2.13-4.4.0.jar"
    jar.touch()
    assert jar_paths(Settings(jars=tmp_path), Path("/no/java/is/run")) == [jar]


def test_a_given_jar_folder_without_delta_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=r"INCLOAD_JARS=\S+ holds no delta-spark jar"):
        jar_paths(Settings(jars=tmp_path), Path("/no/java/is/run"))

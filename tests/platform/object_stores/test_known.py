"""Which object store a path is in, and what else may be written for it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.object_stores import in_object_store, kind_of, with_own_scheme
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.jars import coordinates
from incload_assets.sources.files.template import Template

AZURE = "abfss://lake@account.dfs.core.windows.net/prod"


@pytest.mark.parametrize(
    ("path", "name", "own"),
    [
        ("s3://lake/prod", "S3", "s3://lake/prod"),
        ("s3a://lake/prod", "S3", "s3://lake/prod"),
        (AZURE, "Azure", AZURE),
        ("gs://lake/prod", "Google Cloud Storage", "gs://lake/prod"),
    ],
)
def test_a_scheme_names_the_store(path: str, name: str, own: str) -> None:
    kind = kind_of(path)
    assert kind is not None
    assert kind.name == name
    assert with_own_scheme(path) == own
    assert in_object_store(own)


@pytest.mark.parametrize("path", ["/lake", "file:///lake", "lake", ""])
def test_a_folder_is_in_none(path: str) -> None:
    assert kind_of(path) is None
    assert not in_object_store(path)
    assert with_own_scheme(path) == path


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("az://lake/prod", "INCLOAD_LAKE is no address that all clients understand; write abfss://container@account"),
        ("wasbs://lake@account.blob.core.windows.net/prod", "write abfss://container@account"),
        ("gcs://lake/prod", "write gs://bucket/prefix"),
        ("hdfs://name/lake", "write a folder, s3://bucket/prefix, abfss://container@account"),
        ("abfss://lake/prod", "write abfss://container@account"),
        ("abfss://lake@account.blob.core.windows.net/prod", "write abfss://container@account"),
    ],
)
def test_an_address_that_no_client_takes_is_refused_with_the_one_to_write(place: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Settings(lake=place)


@pytest.mark.parametrize("path", ["az://landing/orders/*.json", "abfss://landing/orders/*.json", "orders/*.json"])
def test_so_is_the_path_of_a_source(path: str) -> None:
    with pytest.raises(DeclarationError, match=r"abfss://container@account\.dfs\.core\.windows\.net"):
        Template.parse("orders", path, "/landing")


def test_a_source_may_be_in_any_of_them() -> None:
    for root in ("s3a://landing/in", AZURE, "gs://landing/in"):
        direct = Template.parse("orders", f"{root}/orders/{{window:%Y-%m-%d}}/*.json", "/landing")
        assert direct.base == f"{with_own_scheme(root)}/orders"
        assert Template.parse("orders", "{landing}/orders/*.json", root).root == with_own_scheme(root)


def test_spark_gets_the_jars_of_those_that_are_configured(tmp_path: Path) -> None:
    def names(**given: str) -> list[str]:
        found = coordinates(Settings(home=tmp_path, kafka=False, **given))
        return [name.split(":")[1] for name in found if "delta" not in name and "postgresql" not in name]

    assert names() == []
    assert names(lake=AZURE) == ["hadoop-azure"]
    assert names(lake="gs://lake/prod", landing=AZURE) == ["hadoop-azure", "hadoop-gcp"]
    assert "hadoop-aws" in names(person_keys="s3://keys/persons")

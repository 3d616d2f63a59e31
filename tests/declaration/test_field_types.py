"""What is declared in another type than it has is refused by name, when the code location loads."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from incload_assets.assets import (
    Changes,
    Debezium,
    Files,
    Freshness,
    Kafka,
    Merge,
    Overwrite,
    Quarantine,
    QueryByTime,
    ReplicationSlot,
    Several,
    Upstream,
    derived_asset,
)
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import DAYS, DatedItem, declared


def changes(**given: Any) -> dict[str, Changes]:
    return {"changes": Changes(**{"keys": ["id"], "sequence_by": ["seq"]} | given)}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            lambda: changes(keys=5),
            "items: changes.keys is 5. Rule: it is an ordered list of strings. Remedy: ",
        ),
        (lambda: changes(keys=None), "items: changes.keys is None. Rule"),
        (lambda: {"write": "merge"}, "items: write is 'merge'. Rule: it is a Write. Remedy: write write=Merge()"),
        (lambda: changes(keys=[["id"]]), "items: changes.keys is (['id'],). Rule"),
        (lambda: changes(keys={"id"}), "items: changes.keys is {'id'}. Rule: it is an ordered list of strings"),
        (lambda: changes(sequence_by=5), "items: changes.sequence_by is 5. Rule"),
        (
            lambda: changes(delete_when=5),
            "items: changes.delete_when is 5. Rule: it is a string, or None. Remedy: write",
        ),
        (lambda: changes(unavailable=5), "items: changes.unavailable is 5. Rule"),
        (lambda: {"freshness": Freshness(within=5)}, "items: freshness.within is 5. Rule: it is a positive length"),
        (
            lambda: {"freshness": Freshness(within=timedelta(0))},
            "items: freshness.within is 0:00:00. Rule: it is a positive length of time. Remedy: write within=timedelta",
        ),
        (lambda: {"freshness": Freshness(within=None)}, "items: freshness.within is None. Rule"),
        (lambda: {"freshness": Freshness(within="6h")}, "items: freshness.within is '6h'. Rule"),
        (
            lambda: {"quarantine": Quarantine(max_share=True)},
            "items: quarantine.max_share is True. Rule: it is a",
        ),
        (
            lambda: {"quarantine": Quarantine(max_share=1.5)},
            "items: quarantine.max_share is 1.5. Rule: it is a share from 0 to 1. Remedy: write max_share=0.05.",
        ),
        (
            lambda: {"write": Merge(max_shrink=-0.1)},
            "items: write.max_shrink is -0.1. Rule: it is a share from 0",
        ),
        (
            lambda: {"write": Merge(buckets=1001)},
            "items: write.buckets is 1001. Rule: it is a whole number from 2 to 1000, such that a bucket has some",
        ),
        (
            lambda: {"quarantine": Quarantine(max_rows=-1)},
            "items: quarantine.max_rows is -1. Rule: it is a number of rows, 0 or more, or None. Remedy: write",
        ),
        (
            lambda: {"log_retention": timedelta(days=-1)},
            "items: log_retention is -1 day, 0:00:00. Rule: it is a length of time, for which a window can be",
        ),
        (
            lambda: {"source": QueryByTime("shop", "t", modified="at", lag=timedelta(seconds=-1))},
            "items: source: lag is -1 day, 23:59:59. Rule: it is a length of time that is not negative. Remedy: write",
        ),
        (
            lambda: {"source": Kafka("Shop", "orders")},
            "items: source: cluster is 'Shop'. Rule: it is letters, digits and _, in lower case. Remedy: write",
        ),
        (lambda: {"source": Kafka("shop", "or/ders")}, "items: source: topic is 'or/ders'. Rule: it is a topic's name"),
        (
            lambda: {"source": Kafka("shop", "orders", per_task=0)},
            "items: source: per_task is 0. Rule: it is 1 message or more. Remedy: write per_task=200_000.",
        ),
        (lambda: {"quarantine": Quarantine(max_rows=True)}, "items: quarantine.max_rows is True. Rule"),
        (lambda: {"quarantine": Quarantine(max_share=float("nan"))}, "items: quarantine.max_share is nan. Rule"),
        (
            lambda: {"write": Merge(partition_by=["day"])},
            "items: write.partition_by is ['day']. Rule: it is a ",
        ),
        (lambda: {"write": Merge(partial="no")}, "items: write.partial is 'no'. Rule: it is True or False. Remedy"),
        (
            lambda: {"source": Files(5)},
            "items: source: path is 5. Rule: it is a string. Remedy: write path='{landing}/",
        ),
        (lambda: {"source": Kafka("shop", 5)}, "items: source: topic is 5. Rule"),
        (lambda: {"source": Several(5)}, "items: source: Several got 5. Rule: it takes a mapping"),
        (lambda: {"source": QueryByTime("shop", "t", modified=5)}, "items: source: modified is 5. Rule"),
        (
            lambda: {"source": Debezium(Files("{landing}/*.json"), table="public.items", keys=5)},
            "items: source: keys is 5. Rule",
        ),
        (
            lambda: {
                "source": Debezium(
                    Files("{landing}/*.json"),
                    table="public.items",
                    keys=["id"],
                    slot=ReplicationSlot("shop", 5),
                )
            },
            "items: source: slot.name is 5. Rule: it is up to 63 of a-z, 0-9 and _. Remedy: write name='debezium'.",
        ),
        (lambda: {"name": 5}, "items: name is 5. Rule: it is a string, or None. Remedy: write name='orders'."),
        (lambda: {"name": ""}, ": its asset key has the part ''. Rule: parts are letters, digits and _"),
        (lambda: {"name": "a/b"}, "a/b: its asset key has the part 'a/b'. Rule"),
        (lambda: {"name": "a.b"}, "a.b: its asset key has the part 'a.b'. Rule"),
        (lambda: {"name": "a b"}, "a b: its asset key has the part 'a b'. Rule"),
        (lambda: {"key_prefix": 5}, "items: key_prefix is 5. Rule"),
        (lambda: {"key_prefix": ["..", ".."]}, "../../items: its asset key has the part '..'. Rule"),
        (lambda: {"key_prefix": "_changes"}, "_changes/items: its asset key begins with '_changes'. Rule: _changes, "),
        (
            lambda: {"max_partitions_per_run": "a"},
            "items: max_partitions_per_run is 'a'. Rule: it is a whole number",
        ),
        (lambda: {"max_partitions_per_run": 0}, "items: max_partitions_per_run is 0. Rule"),
        (lambda: {"max_partitions_per_run": -1}, "items: max_partitions_per_run is -1. Rule"),
        (
            lambda: {"code_version": 5},
            "items: code_version is 5. Rule: it is a string that is not empty, or",
        ),
        (lambda: {"pool": ""}, "items: pool is ''. Rule"),
        (lambda: {"deps": 5}, "items: Dagster refuses its declaration: 'int' object is not iterable. Rule: deps, "),
        (lambda: {"metadata": 5}, "items: Dagster refuses its declaration: 'int' object is not a mapping. Rule"),
        (lambda: {"owners": ["a b"]}, "items: Dagster refuses its declaration: Invalid owner 'a b'"),
        (lambda: {"tags": {"a": 5}}, "items: Dagster refuses its declaration: Tag values must be strings"),
        (lambda: {"group_name": "a b"}, 'items: Dagster refuses its declaration: "a b" is not a valid asset group'),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_name(wrong: Callable[[], dict[str, Any]], says: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(**wrong())
    assert str(refused.value).startswith(says)
    assert refused.value.remedy


def test_a_derived_table_keeps_the_same_rules() -> None:
    of = {"items": Upstream(declared(write=Merge(partition_by="day")), partition="day")}
    for options, says in (
        ({"name": "a b"}, r"^a b: its asset key has the part 'a b'\."),
        ({"keys": 5}, r"^days: changes\.keys is 5\."),
        ({"deps": 5}, "^days: Dagster refuses its declaration: Value after"),
        ({"max_partitions_per_run": 0}, r"^days: max_partitions_per_run is 0\."),
    ):
        with pytest.raises(DeclarationError, match=says):

            @derived_asset(
                partitions_def=DAYS,
                of=of,
                contract=DatedItem,
                write=Overwrite(partition_by="day"),
                **options,
            )
            def days(items: Any) -> Any:
                return items


def test_what_means_the_same_in_another_form_is_accepted() -> None:
    declared(
        changes=Changes(keys="id", sequence_by=("seq",)),
        quarantine=Quarantine(max_share=1),
        freshness=Freshness(within=timedelta(hours=6)),
        write=Merge(max_shrink=1),
        key_prefix=("retail", "shop"),
    )


def test_one_name_upstream_or_one_kind_is_not_taken_for_its_letters() -> None:
    spec = declared(deps="shop", kinds="delta").get_asset_spec()
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["shop"]
    assert spec.kinds == {"delta"}

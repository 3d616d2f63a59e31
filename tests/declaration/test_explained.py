"""A declaration in sentences: two tables in full, and of all others what a reader has to find."""

from typing import Any

import dagster as dg
import pytest

from incload_assets import assets
from incload_assets.assets import (
    Append,
    Changes,
    Debezium,
    DeleteInsert,
    Evolution,
    Files,
    Fold,
    FullReload,
    History,
    Kafka,
    Merge,
    Overwrite,
    Quarantine,
    QueryById,
    QueryByTime,
    Several,
    Snapshot,
    Unwrapped,
    Upstream,
    derived_asset,
)
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.explained import explained
from incload_assets.declaration.source import Source
from incload_assets.declaration.write import Write
from tests.support.guest_table import Guest
from tests.support.tables import DAYS, DatedItem, declared

DELETES = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
PLAIN = Changes(keys=["id"], sequence_by=["seq"])


def public(base: type) -> list[type[Any]]:
    """The kinds that an author can declare, in an order that all processes of a test run share."""
    return [each for each in vars(assets).values() if isinstance(each, type) and issubclass(each, base)]


def said(**options: Any) -> str:
    table = table_of(declared(**options))
    assert table is not None
    return "\n".join(sentence for sentences in explained(table).values() for sentence in sentences)


def test_a_table_that_merges_files_is_explained_in_full() -> None:
    table = table_of(
        declared(
            source=Files("{landing}/guests/{window:%Y-%m-%d}/*.json", deleted="retract"),
            contract=Guest,
            changes=DELETES,
            quarantine=Quarantine(max_share=0.05, max_rows=10),
        )
    )
    assert table is not None
    assert explained(table) == {
        "Read": [
            "A window, which is a partition in Dagster, is a day in UTC; the first is 2026-01-01.",
            "Rows are read from the json files {landing}/guests/{window:%Y-%m-%d}/*.json.",
            "A file belongs to the window in its path, however late it comes.",
            "If a file is added or its content changes, its window is loaded again: rows that left the file leave the "
            "table.",
            "The rows of a deleted file leave the table.",
            "The sensor looks every 15 seconds and requests the windows that are new or have changed. If the "
            "source holds what was loaded, nothing is read.",
            "A window without data waits for it.",
        ],
        "Kept": [
            "The table has one row per id: its newest change, in whatever order changes are loaded.",
            "The newer change is the one with the greater seq; NULL is older than any value. At an equal one "
            "a delete is "
            "newer, and between two other changes a hash of their content decides.",
            "A change with op = 'd' deletes the row.",
            "An older change that arrives later does not restore a deleted row; a newer one does.",
            "If a window changes at its source, it is loaded again: its rows replace its former ones, and the table "
            "becomes what all loaded windows make, in whatever order they were loaded.",
            "Loads of different windows run one after another, as each may change any row.",
        ],
        "Rejected": [
            "Each row is validated by the contract Guest. A rejected row goes to quarantine with its reasons, and the "
            "rest of its window is loaded.",
            "A row is rejected if a value cannot become its column's type without a loss.",
            "A row is rejected if id, seq or day is NULL.",
            "A delete needs its key and sequence only.",
            "A row is rejected if a value breaks a check: room: not >= 1.",
            "Rows with the same name under two keys in one window are all rejected.",
        ],
        "Stopped": [
            "A load stops, and its window keeps what it had, if more than 5 % of its rows, or more than 10 rows, are "
            "rejected. It waits for corrected data.",
            "A field that the contract does not declare is kept beside its row, and stops nothing.",
            "A load adds a new column of the contract, and stops if a type has changed.",
            "A load fails if the table differs from its log, after it has tried to repair it, and the partition does "
            "not turn green.",
        ],
        "Afterwards": [
            "What a load replaced can be brought back for 7 days: incload undo.",
            "A rejected row keeps its record for 90 days, so that it can be replayed: incload replay.",
            "Personal columns: name is masked in messages and samples, stored in clear.",
        ],
    }


def test_a_history_of_a_database_is_explained_in_full() -> None:
    table = table_of(
        declared(
            source=QueryByTime("shop", "public.items", modified="at"),
            write=History(track=["value"]),
            partitions_def=dg.HourlyPartitionsDefinition("2026-01-01-00:00", timezone="Europe/Berlin", end_offset=1),
            evolution=Evolution(unknown="stop", widen="apply"),
        )
    )
    assert table is not None
    found = explained(table)
    assert found["Read"] == [
        "A window, which is a partition in Dagster, is an hour in Europe/Berlin; the first is 2026-01-01-00:00.",
        "A window can be loaded before it ends: 1 open window at a time.",
        "Rows are read from the table public.items of the database shop: a window has the rows whose at lies in it, as "
        "they are when they are read. The first window has all older rows, too.",
        "A row that is committed late is found: its window is looked at until 5 minutes after its end, and until every "
        "transaction of that time has ended.",
        "A row that changes leaves the window of its former change, which keeps what it read; its new window has it.",
        "A row that is deleted at the source is not noticed and stays, unless a column marks it for delete_when.",
        "The sensor looks every 15 seconds and requests the windows that are new or have changed. If "
        "the source "
        "holds what was loaded, nothing is read.",
        "A window without data waits for it.",
    ]
    assert found["Kept"] == [
        "The table has a row for each version of each id, in effect from valid_from until valid_to (exclusive); "
        "is_current marks the version that is in effect.",
        "A version begins when value changes, at the change's seq. It is ended by the next one.",
        "Of several changes with one seq only the newest counts. The newer change is the one with the "
        "greater seq; NULL "
        "is older than any value. At an equal one a delete is newer, and between two other changes a hash of their "
        "content decides.",
        "A late change is put between the versions that it belongs to, and their bounds are adjusted. No version is "
        "deleted.",
        "If a window changes at its source, it is loaded again: its rows replace its former ones, and the "
        "table becomes "
        "what all loaded windows make, in whatever order they were loaded.",
        "A key that the source no longer shows in a window keeps the row that the window had.",
        "Loads of different windows run one after another, as each may change any row.",
    ]
    assert found["Stopped"][1:3] == [
        "A load stops if a record has a field that the contract does not declare.",
        "A load adds a new column of the contract, and widens a type.",
    ]


WRITES: dict[type[Write], tuple[Write, Changes, list[str]]] = {
    Append: (Append(partition_by="day"), PLAIN, ["identified by id, day", "oldest stays, by the smallest seq"]),
    DeleteInsert: (
        DeleteInsert(by=["id"]),
        Changes(sequence_by=["seq"], delete_when="op = 'd'"),
        ["equal id are a group", "replaced as a whole", "op = 'd' deletes its group", "so are the other rows"],
    ),
    Fold: (Fold(maxes=["value"]), PLAIN, ["one row per id", "the greatest of value", "the newest row"]),
    FullReload: (FullReload(max_shrink=0.1), Changes(), ["of the newest window", "more than 10 % of the rows"]),
    History: (
        History(partial=True),
        DELETES,
        [
            "each version of each id",
            "valid_from until valid_to",
            "op = 'd', which deletes it",
            "into all later versions until a change that sets it, too; nothing from before a delete",
            "waits until a change has set each column",
            "Several changes with one seq count together",
        ],
    ),
    Merge: (
        Merge(partial=True, soft_delete="is_deleted"),
        DELETES,
        ["newest change that sets it", "A row waits until", "the row stays, with true in is_deleted"],
    ),
    Overwrite: (
        Overwrite(partition_by="day"),
        Changes(),
        ["whose day lies in it", "no longer has is deleted", "day lies in another window", "run at the same time"],
    ),
    Snapshot: (
        Snapshot(scope="value = 'a'", max_shrink=0.25),
        PLAIN,
        ["a full extract", "lacks is deleted, where value = 'a'", "more than 25 % of the rows", "is quarantined"],
    ),
}


@pytest.mark.parametrize("kind", public(Write))
def test_each_write_strategy_says_what_wins_and_what_is_deleted(kind: type[Write]) -> None:
    write, changes, facts = WRITES[kind]
    text = said(write=write, changes=changes)
    assert [fact for fact in facts if fact not in text] == []


FILES = Files("{landing}/items/*.json", absent="empty")
SOURCES: dict[type[Source], tuple[Source, list[str]]] = {
    Files: (FILES, ["first seen", "The rows of a deleted file stay", "loaded as an empty one"]),
    Kafka: (Kafka("shop", "items"), ["topic items", "in which it arrives", "no longer has the offsets"]),
    QueryById: (QueryById("shop", "public.items", id="seq"), ["greatest seq", "5 minutes", "not, and stays"]),
    QueryByTime: (QueryByTime("shop", "public.items", modified="at"), ["whose at lies in it", "not noticed and stays"]),
    Several: (
        Several({"first": FILES, "second": Kafka("shop", "items")}),
        ["2 sources", "first, second", "first: Rows are read from", "second: A load fails"],
    ),
    Unwrapped: (
        Unwrapped(Kafka("shop", "items"), row=["after", "before"], fields={"op": "meta.op"}),
        ["topic items", "The row is the after or else the before of a record, and op is its meta.op"],
    ),
}


@pytest.mark.parametrize("kind", [kind for kind in public(Source) if kind not in (Source, Debezium)])
def test_each_source_says_what_is_read_and_what_late_and_removed_data_does(kind: type[Source]) -> None:
    source, facts = SOURCES[kind]
    text = said(source=source)
    assert [fact for fact in facts if fact not in text] == []


def test_change_events_are_explained_with_the_source_that_carries_them() -> None:
    events = Debezium(Kafka("shop", "items"), table="public.items", keys=["id"])
    text = "\n".join(events.explained())
    for fact in (
        "topic items",
        "events of public.items are taken",
        "lacks a value, as it did not change, is quarantined",
    ):
        assert fact in text
    kept = "\n".join(events.for_changes(events.unavailable, moves=False).explained())
    assert "keeps what the row had" in kept


def test_a_derived_table_says_which_changes_upstream_load_which_windows_again() -> None:
    items = declared(write=Merge(partition_by="day"))

    @derived_asset(
        partitions_def=DAYS,
        of={"items": Upstream(items, partition="day"), "others": Upstream(declared(name="others"), on="id")},
        contract=DatedItem,
        keys=["id"],
        write=Overwrite(partition_by="day"),
    )
    def derived(items: Any, others: Any) -> Any:
        return items

    table = table_of(derived)
    assert table is not None
    text = "\n".join(table.source.explained())
    assert "A window has the rows of items whose day lies in it; their changes load it again." in text
    assert "A window has all rows of others; a change loads the windows whose rows have its id again." in text

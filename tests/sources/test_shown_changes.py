"""A table that asks its source for changes that it cannot show is refused when it is declared."""

from typing import Any

import pytest

from incload_assets.assets import (
    Append,
    Changes,
    Debezium,
    Files,
    FullReload,
    History,
    Kafka,
    Merge,
    QueryById,
    QueryByTime,
    Several,
    Snapshot,
)
from incload_assets.declaration.source import Source
from incload_assets.platform.errors import DeclarationError
from tests.declaration.test_declared_names import Event
from tests.support.tables import declared

FILES, BY_TIME = Files("{landing}/items/*.json"), QueryByTime("shop", "public.items", "changed")
NUMBERED, JOURNAL = QueryById("shop", "public.items", id="id"), QueryById("shop", "public.item_changes", id="number")
SOURCES: dict[str, tuple[Source, str]] = {
    "files": (FILES, "appends, updates, deletes, truncates, versions, extracts, reloads"),
    "kafka": (Kafka("shop", "items"), "appends, updates, deletes, truncates, versions, extracts, reloads"),
    "a query by time": (BY_TIME, "appends, updates, deletes, truncates, versions"),
    "a query by a number of a key": (NUMBERED, "appends"),
    "a query by a number of a change": (JOURNAL, "appends, updates, deletes, truncates, versions"),
    "change events": (Debezium(FILES, table="public.items", keys=["id"]), "appends, deletes, truncates, versions"),
    "several": (Several({"a": NUMBERED, "b": FILES}), "appends, updates, deletes, truncates, versions"),
    "several of a kind": (Several({"a": NUMBERED, "b": QueryById("old", "items", id="id")}), "appends"),
}
KEYED: dict[str, Any] = {"keys": ["id"], "sequence_by": ["cdc_sequence"]}
ASKED: dict[str, dict[str, Any]] = {
    "appends": {"write": Append(), "changes": Changes(keys=["id"])},
    "updates": {"write": Merge(), "changes": Changes(**KEYED)},
    "deletes": {"write": Merge(), "changes": Changes(**KEYED, delete_when="cdc_op = 'd'")},
    "truncates": {
        "write": Merge(),
        "changes": Changes(**KEYED, delete_when="cdc_op = 'd'", truncate_when="cdc_op = 't'"),
    },
    "versions": {"write": History(), "changes": Changes(**KEYED, delete_when="cdc_op = 'd'")},
    "extracts": {"write": Snapshot(), "changes": Changes(**KEYED)},
    "reloads": {"write": FullReload(), "changes": Changes()},
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("asked", ASKED)
def test_a_table_is_accepted_if_its_source_shows_what_it_asks_for(source: str, asked: str) -> None:
    made, shown = SOURCES[source]
    if asked in shown.split(", "):
        declared(source=made, contract=Event, **ASKED[asked])
        return
    with pytest.raises(DeclarationError, match=r"items.* Rule: .* Remedy: "):
        declared(source=made, contract=Event, **ASKED[asked])


def test_what_a_number_of_a_key_does_not_show_is_named_with_what_to_write() -> None:
    with pytest.raises(DeclarationError) as deletes:
        declared(source=NUMBERED, contract=Event, **ASKED["deletes"])
    assert "changes.delete_when is \"cdc_op = 'd'\", but QueryById shows no deletes of rows with the key id" in str(
        deletes.value
    )
    assert "drop delete_when and write Append(), or use a source that carries deletes" in str(deletes.value)
    with pytest.raises(DeclarationError, match=r"write is Merge\(\), but QueryById shows no updates .* Append\(\)"):
        declared(source=NUMBERED, contract=Event, **ASKED["updates"])

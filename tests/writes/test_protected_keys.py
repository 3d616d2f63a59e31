"""Every way of writing with hashed keys: the table is what its changes make of tokens, and no file has a clear key."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.assets import Files, Hashed, Quarantine
from incload_assets.protection.protect import token
from incload_assets.trial.literal_source import Record
from tests.support.file_texts import texts
from tests.support.tables import make
from tests.writes.case import SEED, Case, crowds, hashes_of
from tests.writes.cases import CASES
from tests.writes.test_conformance import light

CRM = Hashed(key="crm")
NAME = "Ada Lovelace "


def with_keys(content: Mapping[str, Sequence[Record]], *, clear: bool) -> dict[str, list[Record]]:
    """The content with personal keys, or with their tokens."""

    def key(record: Record) -> str | None:
        name = record["id"]
        return name and (NAME + name if clear else token(CRM, NAME + name))

    return {window: [{**record, "id": key(record)} for record in records] for window, records in content.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_a_table_with_hashed_keys_is_what_its_changes_make_and_has_no_key_in_clear(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    data: st.DataObject,
) -> None:
    contents = crowds() if case.contents is None else case.contents
    held, rewritten = data.draw(contents), data.draw(contents)
    order = data.draw(st.permutations(sorted(held)))
    folder: Path = tmp_path_factory.mktemp("protected")
    nullable = case.contract.to_schema().columns["id"].nullable
    field = pa.Field(nullable=nullable, metadata={"personal": CRM})
    contract = type("Protected", (case.contract,), {"__annotations__": {"id": T.StringType}, "id": field})
    source, landing = Files("{landing}/items/{window:%Y-%m-%d}.json"), tmp_path_factory.mktemp("landing")
    options = case.declared | {"contract": contract, "source": source, "quarantine": Quarantine(max_share=1.0)}
    table = make(spark, folder, **options)
    (landing / "items").mkdir()
    loaded: dict[str, list[Record]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_LANDING", str(landing))
        patch.setenv("INCLOAD_KEY_CRM", "a key of at least 32 characters, made up")
        for window, records in [*((window, held[window]) for window in order), (order[0], rewritten[order[0]])]:
            delivered = with_keys({window: records}, clear=True)[window]
            (landing / "items" / f"{window}.json").write_text("".join(f"{json.dumps(one)}\n" for one in delivered))
            table.load(window)
            loaded[window] = with_keys({window: records}, clear=False)[window]
            assert case.held(table) == case.right(table, loaded, hashes_of(table))
    assert NAME not in texts(folder)

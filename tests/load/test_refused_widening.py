"""Tables whose wider types Delta refuses: the error says what to do, and nothing is half-applied."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes
from incload_assets.change_log.context import LoadContext
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.progress.audit import chain_of
from tests.load.test_evolution import LONG, WIDEN, model
from tests.load.test_rewritten import INT
from tests.support.tables import Loaded, day, item, make

RESTORE = "restore the type in the contract, or add the new type under another column name."


def declared(spark: SparkSession, folder: Path, *, wide: bool) -> Loaded:
    kind = LONG if wide else INT
    content = {day(1): [item("a", None, 1, n="1")], day(2): [item("b", None, 2, n="5000000000")]}
    usual = {"changes": Changes(keys=["id"]), "write": Append(), "evolution": WIDEN}
    return make(spark, folder, content, contract=model(n=kind), **usual)


def refused(wide: Loaded) -> str:
    """The text of the refusal, which changes neither the table nor its log."""
    before = wide.versions()
    for _ in range(2):
        with pytest.raises(SchemaMismatch) as error:
            ensure_tables(wide.context())
    assert wide.versions() == before
    assert chain_of(wide.lake).entries == []
    return str(error.value)


def test_a_table_that_may_only_be_appended_to_is_not_widened_until_that_is_allowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    narrow, wide = (declared(spark, tmp_path, wide=wide) for wide in (False, True))
    narrow.load(1)
    alter = f"ALTER TABLE {narrow.lake.sql_name(narrow.uri)} SET TBLPROPERTIES ('delta.appendOnly' = '{{}}')"
    spark.sql(alter.format("true"))
    assert refused(wide) == (
        f"items: Delta refuses to widen 'n' of {wide.uri} (int to bigint): this table may only be appended to. "
        "Rule: a type is widened by a rewrite of the table, which its property delta.appendOnly forbids; nothing was "
        "changed. Remedy: set 'delta.appendOnly' = 'false' with ALTER TABLE … SET TBLPROPERTIES until a load has "
        f"widened the type, or {RESTORE}"
    )
    spark.sql(alter.format("false"))
    wide.load(2)
    assert wide.rows("id", "n") == {("a", 1), ("b", 5_000_000_000)}


def test_a_column_that_a_generated_one_is_made_of_is_not_widened(spark: SparkSession, tmp_path: Path) -> None:
    narrow, wide = (declared(spark, tmp_path, wide=wide) for wide in (False, True))
    columns = "id string, seq bigint, n int, more int GENERATED ALWAYS AS (n + 1)"
    spark.sql(f"CREATE TABLE {narrow.lake.sql_name(narrow.uri)} ({columns}) USING delta")
    ensure_tables(LoadContext(spark, narrow.table, narrow.lake))
    told = refused(wide)
    assert told.startswith(f"items: Delta refuses to widen 'n' of {wide.uri} (int to bigint): ")
    assert "the generated column more is BIGINT" in told
    assert "Rule: a generated column has the type of its expression" in told
    assert told.endswith(f"Remedy: drop the generated column from the table, or {RESTORE}")

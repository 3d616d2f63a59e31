"""What a table's own Delta properties refuse: rules that others gave it, which no contract knows."""

from pyspark.errors import PySparkException

from incload_assets.delta.sql import quoted
from incload_assets.loading.contract import MASK
from incload_assets.loading.declaration import Table
from incload_assets.loading.errors import SchemaMismatch


def refusal(error: PySparkException, table: Table, uri: str) -> SchemaMismatch | None:
    """What Delta's error says about a rule of the table; None where it is about something else.

    Args:
        error: What a commit raised.
        table: Whose load it was part of.
        uri: Of the table, as in SQL.
    """
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith("DELTA_VIOLATE_CONSTRAINT"):
        name = told.get("constraintName", "")
        lines = [line[3:].partition(" : ") for line in told.get("values", "").splitlines() if line.startswith(" - ")]
        personal = tuple(f"{column}." for column in table.contract.personal)  # a member of one is as much so
        values = [f"{column} {MASK if f'{column}.'.startswith(personal) else value}" for column, _, value in lines]
        return SchemaMismatch(
            f"{table.name}: the CHECK constraint {name} {told.get('expression', '')} of the table refuses a row with "
            f"{', '.join(values)}",
            rule="a load writes every row that the contract accepts",
            remedy="put the rule into the contract, which quarantines such rows, and ALTER TABLE "
            f"{uri} DROP CONSTRAINT {quoted(name)}",
        )
    if condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY":
        return SchemaMismatch(
            f"{table.name}: the table has delta.appendOnly = true",
            rule="a load updates and deletes rows, and puts files in the place of others",
            remedy=f"ALTER TABLE {uri} UNSET TBLPROPERTIES ('delta.appendOnly')",
        )
    return None

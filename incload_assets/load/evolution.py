"""The consequences of a declaration that differs from what the lake holds, for the next load, found without Spark."""

from incload_assets.change_log.log import ChangeLog, as_decided
from incload_assets.change_log.staged import UNSET
from incload_assets.change_log.window_records import ingested_windows
from incload_assets.contract.adaptation import Difference, stored_differences
from incload_assets.contract.differences import CODE, NEW_TABLE, put_together, renamed
from incload_assets.declaration.contract_of import adaptation_of, stored_as
from incload_assets.declaration.table import Table
from incload_assets.delta.tables import stored_of
from incload_assets.load.tables import log_stored_as
from incload_assets.platform.lake import Lake


def lake_differences(table: Table, lake: Lake) -> list[tuple[Difference, str]]:
    """The differences between what the lake holds of a table and its declaration; what stops a load comes first.

    Each has its place: ``table``, ``log`` or ``table and log``. What only a declaration has (checks, nullability,
    unique and personal columns, the sequence) is not in the lake. The version of the code is: it is that of the newest
    window.
    """
    table = as_decided(table, lake)
    log = ChangeLog(table, lake)
    stored, logged = lake.delta(lake.table_uri(table.key.path)), lake.delta(log.uri)
    if stored is None and logged is None:
        return [(Difference(NEW_TABLE), "table and log")]
    whole, adaptation = table.write.is_content(table.changes), adaptation_of(table)
    in_log = None if logged is None else stored_of(logged)
    unset = table.by_column and in_log is not None and UNSET in in_log.columns.names
    of_table = [] if stored is None else list(
        stored_differences(stored_of(stored), stored_as(table), whole=whole, unset=unset, adaptation=adaptation)
    )  # fmt: skip
    of_log = [] if in_log is None else list(
        stored_differences(in_log, log_stored_as(log), unset=unset, adaptation=adaptation)
    )  # fmt: skip
    found = put_together([*of_table, *renamed(of_table)], [*of_log, *renamed(of_log)])
    if logged is not None and (windows := ingested_windows(logged)):
        [record] = log.records_in(logged, only=[max(windows)]).values()
        if record.code_version not in ("", table.code_version):
            code = Difference(CODE, "", record.code_version, table.code_version)
            found.append((code, f"log, window {max(windows)}"))
    return found

"""Every way of writing, as the conformance suite runs it: each one every day, its variants in a night run."""

from tests.writes.case import EXAMPLES, Case
from tests.writes.case_append import APPEND, APPEND_ROWS, APPEND_UNORDERED
from tests.writes.case_delete_insert import DELETE_INSERT, DELETE_INSERT_PARTITIONED
from tests.writes.case_fold import FOLD
from tests.writes.case_full_reload import FULL_RELOAD
from tests.writes.case_history import HISTORY, HISTORY_IN_TIME
from tests.writes.case_merge import MERGE
from tests.writes.case_merge_moved import MERGE_MOVED
from tests.writes.case_merge_partial import MERGE_PARTIAL
from tests.writes.case_merge_partitioned import MERGE_PARTITIONED
from tests.writes.case_merge_rewritten import MERGE_REWRITTEN
from tests.writes.case_merge_snapshots import MERGE_SNAPSHOTS
from tests.writes.case_merge_soft_delete import MERGE_SOFT_DELETE
from tests.writes.case_overwrite import OVERWRITE
from tests.writes.case_snapshot import SNAPSHOT, SNAPSHOT_KEEPING

DAILY: list[Case] = [
    MERGE,
    MERGE_PARTITIONED,
    MERGE_REWRITTEN,
    MERGE_PARTIAL,
    MERGE_MOVED,
    MERGE_SNAPSHOTS,
    MERGE_SOFT_DELETE,
    HISTORY,
    APPEND,
    APPEND_ROWS,
    SNAPSHOT,
    FULL_RELOAD,
    OVERWRITE,
    DELETE_INSERT,
    FOLD,
]
VARIANTS: list[Case] = [HISTORY_IN_TIME, APPEND_UNORDERED, SNAPSHOT_KEEPING, DELETE_INSERT_PARTITIONED]
CASES = [*DAILY, *VARIANTS] if EXAMPLES > 1 else DAILY

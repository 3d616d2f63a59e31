"""Tables with a change feed, of every write strategy: a reader that applies the feed has the table after every step."""

from dataclasses import replace

from tests.writes.case import Case
from tests.writes.case_append import APPEND
from tests.writes.case_delete_insert import DELETE_INSERT
from tests.writes.case_fold import FOLD
from tests.writes.case_full_reload import FULL_RELOAD
from tests.writes.case_history import HISTORY
from tests.writes.case_merge import MERGE
from tests.writes.case_merge_partial import MERGE_PARTIAL
from tests.writes.case_merge_partitioned import MERGE_PARTITIONED
from tests.writes.case_merge_rewritten import MERGE_REWRITTEN
from tests.writes.case_merge_soft_delete import MERGE_SOFT_DELETE
from tests.writes.case_overwrite import OVERWRITE
from tests.writes.case_snapshot import SNAPSHOT


def fed(case: Case, *, daily: bool = False) -> Case:
    """The same with a change feed."""
    return replace(case, name=f"{case.name}_fed", write=replace(case.write, change_feed=True), daily=daily)


MERGE_FED = fed(MERGE, daily=True)
OVERWRITE_FED = fed(OVERWRITE, daily=True)
APPEND_FED, DELETE_INSERT_FED, FOLD_FED, FULL_RELOAD_FED = map(fed, (APPEND, DELETE_INSERT, FOLD, FULL_RELOAD))
HISTORY_FED, SNAPSHOT_FED, PARTIAL_FED, PARTITIONED_FED = map(
    fed, (HISTORY, SNAPSHOT, MERGE_PARTIAL, MERGE_PARTITIONED)
)
REWRITTEN_FED, SOFT_DELETE_FED = map(fed, (MERGE_REWRITTEN, MERGE_SOFT_DELETE))

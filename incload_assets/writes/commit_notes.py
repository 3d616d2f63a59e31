"""Notes of merges in the commit history of a table: which windows, landed by which runs, were merged."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from incload_assets.change_log.read_view import ReadView

_MERGED, _RUN, _TO, _AND = "merged ", ", run ", "..", ", "
_SKEW = timedelta(hours=1)
"""How far the clocks of loads and of Spark may be apart."""


def commit_note(at: ReadView) -> str:
    """The message of a merge in the commit history: windows and runs."""
    keys = sorted(at.records)
    runs = sorted({record.run_id for record in at.records.values()})
    return f"{_MERGED}{keys[0]}{f'{_TO}{keys[-1]}' if len(keys) > 1 else ''}{_RUN}{_AND.join(runs)}"


def noted(message: str) -> tuple[str, tuple[str, ...]] | None:
    """The windows, as text, and the runs of a merge by its message; None if it is another's message."""
    windows, _, runs = message.rpartition(_RUN)
    if not windows.startswith(_MERGED):
        return None
    return windows.removeprefix(_MERGED), tuple(runs.split(_AND))


@dataclass(frozen=True)
class MergesNoted:
    """The merges in the commits that Delta still keeps: first and last partition key of each, by run.

    All commits since ``since`` are kept; None: none was removed.
    """

    merges: Mapping[str, Sequence[tuple[str, str]]]
    since: datetime | None

    @classmethod
    def of(cls, delta: DeltaTable) -> "MergesNoted":
        """The merges in the history of a version of a table."""
        merges: dict[str, list[tuple[str, str]]] = defaultdict(list)
        commits = delta.history()
        for commit in commits:
            if (merge := noted(str(commit.get("userMetadata") or ""))) is not None:
                first, _, last = merge[0].partition(_TO)
                for run in merge[1]:
                    merges[run].append((first, last or first))
        oldest = min(commits, key=lambda commit: int(commit["version"]), default=None)
        if oldest is None or not oldest["version"]:
            return cls(merges, None)
        return cls(merges, datetime.fromtimestamp(oldest["timestamp"] / 1000, UTC))

    def may_have(self, key: str, run_id: str, landed_at: datetime) -> bool:
        """True if a window was merged since a run landed it, or if such a commit may have been removed since."""
        if any(first <= key <= last for first, last in self.merges.get(run_id, ())):
            return True
        return self.since is not None and landed_at < self.since + _SKEW

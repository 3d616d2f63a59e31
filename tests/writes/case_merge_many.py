"""Merge whose windows are planned and written as very large ones are, however few changes they have."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.writes import replace_where, row_fold, single_changes
from incload_assets.writes.plan import Merged, MergePlan
from tests.writes.case import Case
from tests.writes.case_merge import newest


@contextmanager
def as_many() -> Iterator[None]:
    """Takes any number of changes for many."""
    with ExitStack() as held:
        for module in (replace_where, row_fold, single_changes):
            held.enter_context(mock.patch.object(module, "MANY_CHANGES", 0))
        yield


@dataclass(frozen=True, kw_only=True)
class OfMany(Merge):
    """Takes any number of changes for many."""

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The plan of a large window."""
        with as_many():
            return super().plan(load, at, full=full)

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """The commit of a large window."""
        with as_many():
            return super().apply(load, at, plan)


MERGE_MANY = Case("merge_many", OfMany(), newest)

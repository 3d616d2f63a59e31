"""Mutants of groups of derived tables: what would leave a group as it was, or take what is no group's for one."""

from tests.mutations.mutant import CONVERGENCE, IDLE, Mutant

GROUPS = "tests/sources/upstream/test_groups.py::test_"
MOVED = f"{GROUPS}a_row_that_moves_to_another_group_and_the_last_row_of_a_group_concern_both_groups"
ONLY = f"{GROUPS}only_the_groups_with_changed_rows_are_computed_again"

MUTANTS_OF_GROUPS = [
    Mutant("groups that rows have left are computed", CONVERGENCE, "sources.upstream.references:differing",
           "both[0].exceptAll(both[1]).unionByName(both[1].exceptAll(both[0]))", "both[1].exceptAll(both[0])",
           (MOVED,)),
    Mutant("groups that rows have come to are computed", CONVERGENCE, "sources.upstream.references:differing",
           "both[0].exceptAll(both[1]).unionByName(both[1].exceptAll(both[0]))", "both[0].exceptAll(both[1])",
           (MOVED,)),
    Mutant("NULL is a group", CONVERGENCE, "sources.upstream.groups:_joined",
           "col(name).eqNullSafe(col(names[group]))", "col(name) == col(names[group])",
           (MOVED,)),
    Mutant("rows of other groups stay", CONVERGENCE, "sources.upstream.tables:Tables.staying",
           "None if touched is None else", "None if True else",
           (ONLY,)),
    Mutant("rows of changed groups go", CONVERGENCE, "sources.upstream.groups:of_other_groups",
           '"left_anti"', '"left_outer"',
           (ONLY,)),
    Mutant("groups whose rows refer to a changed key are computed", CONVERGENCE,
           "sources.upstream.groups:changed_groups", "if other.partition is not None:", "if False:",
           (f"{GROUPS}rows_that_refer_to_a_changed_key_are_of_changed_groups",)),
    Mutant("other code computes all groups", CONVERGENCE, "ingest.gains:renewal_of",
           "or before.code_version != load.table.code_version", "or False",
           (f"{GROUPS}all_groups_are_computed_by_other_code_and_beside_quarantined_rows",)),
    Mutant("beside quarantined rows all groups are computed", CONVERGENCE, "ingest.gains:renewal_of",
           "or before.rejected", "or False",
           (f"{GROUPS}all_groups_are_computed_by_other_code_and_beside_quarantined_rows",)),
    Mutant("versions of a table are no versions of the table that replaced it", CONVERGENCE,
           "sources.upstream.groups:position_since", 'then["id"] != state["id"]', "False",
           (f"{GROUPS}all_groups_are_computed_of_a_table_that_was_made_anew",)),
    Mutant("a function that makes rows of other groups gets all rows", CONVERGENCE,
           "sources.upstream.groups:marked_if_other", "F.coalesce(mark, F.lit(True))", "F.coalesce(mark, F.lit(False))",
           (f"{GROUPS}a_function_that_makes_rows_of_other_groups_is_told_and_its_window_computed",)),
    Mutant("only changed groups are computed", IDLE, "sources.upstream.tables:Tables._rows",
           "if touched is None or upstream.partition is None:", "if True:",
           (ONLY,)),
    Mutant("after a change of much all groups are computed", IDLE, "sources.upstream.groups:position_since",
           "or changed > MOST_CHANGED * whole", "or False",
           (f"{GROUPS}all_groups_are_computed_after_a_change_of_much_of_a_window_and_in_a_small_one",)),
]  # fmt: skip

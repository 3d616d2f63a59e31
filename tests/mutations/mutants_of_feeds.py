"""Mutants of change feeds: what would give a reader of the feed another table, or rows that did not change."""

from tests.mutations.mutant import CONVERGENCE, EXPLAIN, IDLE, PROTECTION, Mutant

FEEDS = "tests/delta/test_change_feed.py::test_"
ERASED = "tests/erasure/test_erase.py::test_"
SPARED = f"{FEEDS}a_window_that_is_replaced_tells_of_the_rows_that_differ_alone"

MUTANTS_OF_FEEDS = [
    Mutant("a declared feed is turned on", CONVERGENCE, "declaration.contract_of:stored_as",
           "if table.write.change_feed:", "if False:",
           (f"{FEEDS}an_existing_table_has_a_feed_from_its_next_load_on_and_keeps_it",)),
    Mutant("under a feed, contents are merged", IDLE, "writes.replace_where:replace_content",
           "if at.feeds:", "if False:",
           (SPARED,)),
    Mutant("of a content that stands too often the wanted rows stay", CONVERGENCE,
           "writes.replace_where:_merge_content",
           '_repeated("insert", F.col("_wanted")))', '_repeated("insert", F.lit(0)))',
           (SPARED,)),
    Mutant("of a content that stands too rarely only the missing rows are inserted", CONVERGENCE,
           "writes.replace_where:_merge_content",
           'F.when(more > 0, _repeated("insert", more))', 'F.when(more > 0, _repeated("insert", F.col("_wanted")))',
           (f"{FEEDS}rows_that_leave_a_partition_are_deleted_and_missing_copies_inserted",)),
    Mutant("contents are looked for in all partitions of a window", CONVERGENCE, "writes.replace_where:_merge_content",
           "by_place=False, ", "",
           (f"{FEEDS}rows_that_leave_a_partition_are_deleted_and_missing_copies_inserted",)),
    Mutant("rows are looked for, although the window's partitions have none", CONVERGENCE,
           "writes.replace_where:_merge_content", ", near_bytes=at.table_bytes", "",
           (f"{FEEDS}a_window_that_moved_to_partitions_without_rows_is_replaced_in_one_commit",)),
    Mutant("no rewrite under a change feed", IDLE, "writes.replace_where:pays",
           "    if at.feeds:\n        return False\n", "",
           ("tests/writes/test_replace_where.py::test_a_rewrite_can_be_switched_off_and_is_not_made_where_the_change_"
            "feed_would_tell_of_every_row[change feed]",)),
    Mutant("changes before the oldest kept commit are refused", EXPLAIN, "history.feed:_check_kept",
           "if first < kept:", "if False:",
           (f"{FEEDS}what_is_no_longer_kept_is_an_error_with_the_retention_and_the_remedy",)),
    Mutant("changes before the feed are refused", EXPLAIN, "history.feed:_check_kept",
           "if first < begins:", "if False:",
           (f"{FEEDS}an_existing_table_has_a_feed_from_its_next_load_on_and_keeps_it",)),
    Mutant("personal values of a feed are masked", PROTECTION, "history.feed:_rows",
           "name in table.contract.personal and", "False and",
           (f"{FEEDS}a_feed_has_the_rows_that_changed_and_none_of_repetitions_and_compactions",)),
    Mutant("erasure: files of the feed", PROTECTION, "erasure.old_versions:files_of_data",
           'f"{COMMITS_FOLDER}/", *inner', 'f"{COMMITS_FOLDER}/", "_change_data/", *inner',
           (f"{ERASED}a_change_feed_has_the_person_no_more_and_a_reader_that_is_behind_gets_an_error_and_no_gap",)),
]  # fmt: skip

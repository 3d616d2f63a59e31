"""Mutants of erasures: what brings a person back, and what would stay of one."""

from tests.mutations.mutant import BINS, PROTECTION, Mutant

ERASE = "tests/recovery/test_erase.py::test_"
INTERRUPTED = "tests/recovery/test_erase_interrupted.py::test_"
GONE = f"{ERASE}a_person_is_gone_from_every_file_and_all_other_rows_stay[json-1]"
EVENTS = "tests/integration/test_erasure_through_sources.py::test_a_person_is_erased_whose_rows_are_events_of_debezium"
BACK = f"{ERASE}neither_loads_nor_an_undo_nor_a_replay_bring_a_person_back"

MUTANTS_OF_ERASURES = [
    Mutant("erasure: a landing that was staged before", PROTECTION, "change_log.commit:commit",
           "load.table.subject is not None and barrier_of(log_now) != staged.barrier", "False",
           (f"{INTERRUPTED}a_load_that_has_staged_rows_of_the_person_starts_again_without_them",)),
    Mutant("erasure: the deny list", PROTECTION, "change_log.erasures:deny_list_of",
           "table.subject is None or", "True or", (f"{BACK}[merge]",)),
    Mutant("erasure: changes that lack their subject", PROTECTION, "ingest.erased:subject_of",
           "if not keys or by in keys:", "if True:", (GONE,)),
    Mutant("erasure: keys of rejected rows", PROTECTION, "recovery.erase:Eraser._barred",
           "*CHANGES, REJECTED", "*CHANGES", (EVENTS,)),
    Mutant("erasure: records that cannot be read", PROTECTION, "ingest.erased:marked_erased",
           "unread = rejected & of.subject.isNull()", "unread = F.lit(False)", (GONE,)),
    Mutant("erasure: markers of keys", PROTECTION, "recovery.erase_rows:_merge_and_strip",
           "anew=[REPLACED]", "anew=[]", (f"{BACK}[key is the person's]",)),
    Mutant("erasure: rows that no log explains", PROTECTION, "recovery.erase_rows:erase_rows",
           "_sweep(load, deny)", "pass",
           (f"{ERASE}rows_that_are_no_longer_in_the_log_are_erased_from_the_table",)),
    Mutant("erasure: commits of old versions", PROTECTION, "recovery.old_versions:remove_old_versions",
           "for info in old:", "for info in []:", (GONE,)),
    Mutant("erasure: files of old versions", PROTECTION, "recovery.old_versions:remove_old_versions",
           "for info in unused:", "for info in []:", (GONE,)),
    Mutant("erasure: former landings", PROTECTION, "recovery.erase:Eraser._erased",
           "rewritten += self._rewrite_former(load, listed)", "pass", (f"{BACK}[merge]",)),
    Mutant("erasure: erased records are counted", BINS, "load.fill:_land_once",
           "gone = before.skipped + before.erased", "gone = before.skipped",
           (f"{ERASE}a_fill_after_an_erasure_counts_the_erased_records",)),
]  # fmt: skip

"""Mutants of erasures: what brings a person back, and what would stay of one."""

from tests.mutations.mutant import BINS, EXPLAIN, PROTECTION, Mutant

ERASE = "tests/recovery/test_erase.py::test_"
INTERRUPTED = "tests/recovery/test_erase_interrupted.py::test_"
CLAIMS = "tests/progress/test_claims.py::test_"
KINDS = "tests/recovery/test_erase_kinds.py::test_"
TRACES = "tests/recovery/test_traces.py::test_"
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
    Mutant("erasure: rows without keys that no log explains", PROTECTION, "recovery.erase_rows:_sweep",
           "delete_rows(load.spark, load.lake.sql_name(load.uri), left, columns, note=note)", "pass",
           (f"{KINDS}a_person_is_gone_from_adopted_partitions_that_no_window_was_loaded_of",)),
    Mutant("erasure: an undo of the first load", PROTECTION, "recovery.erase_rows:_land",
           "erasing=True,", "erasing=True, former=before.landing,",
           (f"{KINDS}a_person_is_gone_from_the_rows_that_an_adopted_table_had",)),
    Mutant("erasure: compressed files", PROTECTION, "recovery.traces:Search._has_trace",
           "unpacked(data).decode", "data.decode",
           (f"{TRACES}compressed_files_are_read_whatever_their_names_are",)),
    Mutant("erasure: files that cannot be read", PROTECTION, "recovery.unpacked:unpacked",
           'raise CannotUnpack(f"{closed} is not read")', "return data",
           (f"{TRACES}files_in_which_no_text_can_be_read_are_told_and_prove_nothing",)),
    Mutant("erasure: decisions about many rows", PROTECTION, "recovery.erase:Eraser._decided_rows",
           "head(len(decided))", "head(MOST_KEYS)",
           (f"{ERASE}what_people_decided_about_rejected_rows_of_the_person_goes_with_them_however_many_there_are",)),
    Mutant("erasure: decisions that name the person", PROTECTION, "recovery.erase:Eraser._decided_rows",
           "return given | {", "return {",
           (f"{ERASE}what_people_decided_about_rejected_rows_of_the_person_goes_with_them_however_many_there_are",)),
    Mutant("erasure: one that failed is in the audit", EXPLAIN, "recovery.erase:Eraser.erase",
           "record(self.lake, replace(action, details=failed))", "pass",
           (f"{INTERRUPTED}an_erasure_that_dies_is_completed_by_the_next_one_whatever_is_loaded_in_between"
            "[before the barrier]",)),
    Mutant("erasure: tables derived from derived ones", PROTECTION, "recovery.erasure:derived_without_subject",
           "reached[tuple(table.key.path)] = table.name", "pass",
           ("tests/recovery/test_erase_derived.py::test_"
            "a_person_is_gone_from_all_tables_and_what_is_derived_without_a_subject_is_named",)),
    Mutant("erasure: commits of old versions", PROTECTION, "recovery.old_versions:remove_old_versions",
           "for info in old:", "for info in []:", (GONE,)),
    Mutant("erasure: files of old versions", PROTECTION, "recovery.old_versions:remove_old_versions",
           "for info in unused:", "for info in []:", (GONE,)),
    Mutant("erasure: former landings", PROTECTION, "recovery.erase:Eraser._erased",
           "rewritten += self._rewrite_former(load, listed)", "pass", (f"{BACK}[merge]",)),
    Mutant("erasure: one at a time", PROTECTION, "progress.claims:claim",
           "if claimed_by_others(lake, table_name, holder) is not None:", "if False:",
           (f"{CLAIMS}a_claimed_table_is_paused_and_refused_to_other_work_until_the_claim_ends",
            f"{INTERRUPTED}while_a_person_is_erased_the_erasure_of_another_one_is_refused")),
    Mutant("erasure: a claim that was taken over", PROTECTION, "progress.claims:end_claim",
           "if claimed.number not in {one.number for one in pauses_in_force(lake, now())}:", "if False:",
           (f"{CLAIMS}repeated_work_takes_its_claim_over_and_the_former_end_does_not_end_it",)),
    Mutant("erasure: an undo counts erased records", BINS, "load.undo:_land_once",
           "counts_by_kind(marked.filter(IS_ERASED)) if deny and former else {}", "{}",
           (f"{ERASE}an_undo_to_deletes_of_the_persons_keys_counts_them_as_erased",)),
    Mutant("erasure: erased records are counted", BINS, "load.fill:_land_once",
           "gone = before.skipped + before.erased", "gone = before.skipped",
           (f"{ERASE}a_fill_after_an_erasure_counts_the_erased_records",)),
]  # fmt: skip

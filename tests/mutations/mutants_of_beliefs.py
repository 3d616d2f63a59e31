"""Mutants of beliefs: what was known when."""

from tests.mutations.mutant import CONVERGENCE, EXPLAIN, IDLE, INSTANTS, PARTITION, PROTECTION, Mutant

BELIEFS = "tests/writes/test_beliefs.py::test_"
CORRECTED = f"{BELIEFS}a_correction_ends_a_belief_and_does_not_rewrite_it"
BY_HAND = f"{BELIEFS}an_edit_by_hand_is_corrected_in_place_if_nothing_has_landed_since_and_otherwise_ended"
CLOCK = f"{BELIEFS}instants_grow_although_the_clock_goes_back"
REFUSED = f"{BELIEFS}what_a_history_cannot_know_is_refused_with_what_to_do"
ENDED = f"{BELIEFS}a_load_reads_and_writes_no_file_of_beliefs_that_were_ended"
TAKEN = f"{BELIEFS}a_landing_whose_instant_another_one_takes_is_committed_at_a_later_one_without_reading_again"
LOST = f"{BELIEFS}a_lost_table_is_not_made_again_without_what_was_believed"
LAWS = f"{BELIEFS}beliefs_that_another_writer_has_damaged_break_a_law"
ERASED = "tests/erasure/test_erase_kinds.py::test_a_person_is_gone_from_all_that_a_history_believed"

MUTANTS_OF_BELIEFS = [
    Mutant("beliefs: a correction ends a belief", EXPLAIN, "writes.beliefs:Beliefs.actions",
           '.when((action == "update") & ~is_at_once, F.array(close, opens))', "", (CORRECTED,)),
    Mutant("beliefs: what is no longer so is ended, not deleted", EXPLAIN, "writes.beliefs:Beliefs.actions",
           '.when((action == "delete") & ~is_at_once, F.array(close))', "", (CORRECTED,)),
    Mutant("beliefs: no belief has an empty period", EXPLAIN, "writes.beliefs:Beliefs.actions",
           "F.coalesce(began >= at, F.lit(False))", "F.lit(False)", (BY_HAND,)),
    Mutant("beliefs: an ended belief is not current", EXPLAIN, "writes.beliefs:Beliefs.actions",
           "is_current: F.lit(False)", "is_current: F.lit(True)", (CORRECTED,)),
    Mutant("beliefs: only what is still believed is compared", CONVERGENCE, "writes.versions:version_plan",
           'present = present.alias("t").filter(match)', "pass", (CORRECTED,)),
    Mutant("beliefs: instants grow", INSTANTS, "change_log.known_at:_after",
           "max((windows.now() - _EPOCH) // _MICROSECOND, newest + 1)", "(windows.now() - _EPOCH) // _MICROSECOND",
           (CLOCK,)),
    Mutant("beliefs: a merge has the instant of the log that it reads", CONVERGENCE, "change_log.known_at:known_at",
           "if preview or newest is None else newest", "", (CLOCK,)),
    Mutant("beliefs: a landing commits its instant", CONVERGENCE, "change_log.commit:commit",
           ", note=note, also=instant)", ", note=note)", (CLOCK,)),
    Mutant("beliefs: a landing whose instant is taken is committed again", IDLE, "change_log.commit:commit",
           "now == held and attempts and", "False and", (TAKEN,)),
    Mutant("beliefs: loads read no ended ones", PARTITION, "change_log.context:LoadContext.read_view",
           'rows = files_in(rows, column, ["true"])', "pass", (ENDED,)),
    Mutant("beliefs: a lost table is not made again", EXPLAIN, "load.tables:ensure_tables",
           "refuse_lost_beliefs(load)", "pass", (LOST,)),
    Mutant("beliefs: an erasure removes ended ones", PROTECTION, "erasure.erase_rows:_swept",
           "return held is None or _deleted_beliefs(load, ended)", "return True", (ERASED,)),
    Mutant("beliefs: a period ends before its end", INSTANTS, "writes.as_of:_in_effect",
           "(last > at)", "(last >= at)", (REFUSED,)),
    Mutant("beliefs: what is not known is refused", EXPLAIN, "writes.as_of:rows_as_of",
           "if known is not None and write.beliefs is None:", "if False:", (REFUSED,)),
    Mutant("beliefs: each has a period", EXPLAIN, "checks.beliefs:broken_laws",
           "(ended <= began)", "(ended < began)", (LAWS,)),
    Mutant("beliefs: none is current after its end", EXPLAIN, "checks.beliefs:broken_laws",
           "is_current != (held & end.isNull())", "is_current & ~end.isNull()", (LAWS,)),
    Mutant("beliefs: none is held twice", EXPLAIN, "checks.beliefs:broken_laws",
           '_count(F.col("_until") > began)', "_count(F.lit(False))", (LAWS,)),
    Mutant("beliefs: none is in effect beside another one", EXPLAIN, "checks.beliefs:broken_laws",
           '"in effect beside another version": pairs', '"in effect beside another version": 0', (LAWS,)),
]  # fmt: skip

"""Mutants of lifetimes: what is removed when, and what stays."""

from tests.mutations.mutant import BINS, CHECKPOINT, CONVERGENCE, EXPLAIN, IDLE, PROTECTION, Mutant

PAYLOADS = "tests/maintenance/test_expire_payloads.py::test_"
AUDIT = "tests/progress/test_audit_expiry.py::test_"
ENDS = f"{PAYLOADS}payloads_end_and_rows_reasons_and_everything_else_stay"
YOUNGER = f"{PAYLOADS}younger_payloads_of_the_same_window_stay_and_only_old_files_are_rewritten"
FIRST = f"{PAYLOADS}a_load_that_commits_first_is_neither_lost_nor_doubled"
DECIDED = f"{PAYLOADS}decisions_find_their_rows_without_payloads_and_what_needs_a_record_is_refused"
AGE = f"{PAYLOADS}a_replay_passes_the_age_of_payloads_on_and_validates_those_that_are_left"
FORMER = f"{PAYLOADS}a_former_landing_whose_files_were_rewritten_can_still_be_returned_to"
EXPIRED = (
    "tests/history/test_expire_runs.py::test_only_runs_that_nothing_depends_on_are_removed_and_with_all_that_they_left"
)

MUTANTS_OF_LIFETIMES = [
    Mutant("lifetimes: unknown fields end with the payload", PROTECTION, "maintenance.expire_payloads:_emptied",
           'F.when(F.col("_kind") != REJECTED, F.col("_rescued"))', 'F.col("_rescued")', (ENDS,)),
    Mutant("lifetimes: what was emptied is not rewritten", IDLE, "maintenance.expire_payloads:_payloads",
           "not all(str(bound).startswith(EXPIRED)", "not any(str(bound) == ''", (ENDS,)),
    Mutant("lifetimes: only old files", IDLE, "maintenance.expire_payloads:_old_files",
           ' & (pc.field("modification_time") < milliseconds(older_than))', "", (YOUNGER,)),
    Mutant("lifetimes: other files of a window stay", BINS, "maintenance.expire_payloads:_expire",
           "added += _linked(load, others)", "added += []", (YOUNGER,)),
    Mutant("lifetimes: a load that commits first stays", CONVERGENCE, "maintenance.expire_payloads:_expire",
           "load.lake.commit(at, added", "load.lake.commit(load.log.open(), added", (FIRST,)),
    Mutant("lifetimes: the age of payloads is passed on", PROTECTION, "load.landing_again:land_again",
           "read_at = payloads_read_at(load.log.open(), [window.key])", "read_at = None", (AGE,)),
    Mutant("lifetimes: an undo passes the age on", PROTECTION, "load.undo:_land",
           "read_at = {key: former.record.landed_at} if former else None", "read_at = None", (FORMER,)),
    Mutant("lifetimes: files that former landings name are kept", CONVERGENCE,
           "change_log.former:FormerLandings.keep_named", "if named:", "if False:", (FORMER,)),
    Mutant("lifetimes: a replay without records is refused", EXPLAIN, "load.validatable:refuse_expired",
           "if expired := rejected.filter(is_expired()).count():", "if expired := 0:",
           (f"{PAYLOADS}a_replay_of_rows_without_records_is_refused_with_the_reason_and_not_asked_for",)),
    Mutant("lifetimes: a discard stays in force", EXPLAIN, "maintenance.expire_payloads:_emptied",
           "    if decided:", "    if False:", (DECIDED,)),
    Mutant("lifetimes: an acceptance without records is not undone", CONVERGENCE, "quarantine.decide:take_back",
           'if kind != "discard" and (', "if False and (", (DECIDED,)),
    Mutant("lifetimes: a row without a record is not accepted", EXPLAIN, "quarantine.decide:_refuse_expired",
           "if expired := rows.filter(is_expired()).count():", "if expired := 0:",
           (f"{PAYLOADS}a_row_without_a_record_is_not_accepted",)),
    Mutant("lifetimes: an audit that keeps entries fails the job", EXPLAIN, "maintenance.jobs:MaintenanceJob",
           'failures["the lake"] = str(translate(error, "the lake"))', "failures |= {}",
           ("tests/maintenance/test_jobs.py::"
            "test_the_audit_ends_with_the_job_of_all_tables_whose_step_shows_what_there_was_and_what_is_left",)),
    Mutant("lifetimes: a run that a partition's status depends on stays", CHECKPOINT,
           "history.expire_runs:_superseded", "return loaded and last", "return last", (EXPIRED,)),
    Mutant("lifetimes: a checkpoint stays", CHECKPOINT,
           "history.expire_runs:_superseded", " and last.run_id != run.run_id", "", (EXPIRED,)),
    Mutant("lifetimes: a run that was not collected stays", EXPLAIN, "history.expire_runs:expire_runs",
           "(run.run_id in known and superseded(run))", "superseded(run)", (EXPIRED,)),
    Mutant("lifetimes: an audit begins after its anchor", EXPLAIN, "progress.audit:_anchor_of",
           "if a[0] < entries[0].number", "if a[0] == 0",
           (f"{AUDIT}more_than_an_anchor_covers_is_missed",)),
    Mutant("lifetimes: anchors make no anchors", IDLE, "progress.audit:expire_audit",
           'any(entry.action != "expire" for entry in old)', "old",
           (f"{AUDIT}anchors_alone_are_no_reason_for_another_one",)),
    Mutant("lifetimes: a removal is completed", EXPLAIN, "progress.audit:expire_audit",
           "unfinished = bool(entries) and through >= entries[0].number", "unfinished = False",
           (f"{AUDIT}a_removal_that_was_killed_between_its_steps_is_completed",)),
    Mutant("lifetimes: an altered audit loses nothing", EXPLAIN, "progress.audit:expire_audit",
           "if found.altered is not None:", "if False:", (f"{AUDIT}more_than_an_anchor_covers_is_missed",)),
]  # fmt: skip

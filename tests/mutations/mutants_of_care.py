"""Mutants of what people do about tables: the audit, pauses and the lake's identity."""

from tests.mutations.mutant import CONVERGENCE, EXPLAIN, IDLE, Mutant

DOCTOR = "tests/restore/test_doctor.py::test_"
MANY = "tests/progress/test_many_tables.py::test_"
PAUSES = "tests/restore/test_jobs_doctor.py::test_"
BY_HAND = "tests/history/test_manual_actions.py::test_"
CONFIRMED = (
    "tests/maintenance/test_jobs.py::"
    "test_a_person_confirms_a_job_that_removes_something_for_good_and_a_schedule_does_not"
)
ERASED = "tests/erasure/test_erase.py::test_the_job_of_the_ui_erases_only_after_its_confirmation"
UNREADABLE = "tests/platform/test_unreadable.py::test_"
DAMAGED = "tests/cli/test_damaged_tables.py::test_"
ENVIRONMENTS = (
    "tests/progress/test_lake_identity.py::"
    "test_a_lake_is_written_by_the_environment_that_made_it_until_another_one_adopts_it"
)
AUDIT = "tests/progress/test_audit.py::test_"
SENSOR = "tests/automation/test_watch_sensor.py::test_"
OVERVIEW = "tests/automation/test_overview.py::test_"
DAEMON = (
    "tests/runs/test_only_daemon.py::test_a_second_daemon_is_refused_until_the_first_is_gone_however_it_ended[sqlite]"
)
RECORDING = "tests/checks/test_recording.py::test_"

MUTANTS_OF_CARE = [
    Mutant("care: a paused table is not loaded", CONVERGENCE, "assets.run:materialize",
           "expect_not_paused(context.resources.lake, table.name)", "pass",
           (f"{PAUSES}a_run_that_loads_already_is_not_stopped_by_a_pause",)),
    Mutant("care: a sensor requests nothing of a paused table", CONVERGENCE, "automation.watching:_Tick._decide",
           "if (pause := self.paused.get(table.name)) is not None:", "if (pause := None):",
           (f"{PAUSES}a_table_paused_from_the_ui_is_watched_and_not_loaded_until_it_is_resumed",)),
    Mutant("care: what Dagster has recorded has a table looked at wholly", CONVERGENCE, "automation.watching:_Tick.run",
           "one.news or news is None or one.table.key in news", "one.news",
           (f"{SENSOR}a_table_of_which_nothing_is_new_is_not_read_and_every_kind_of_news_has_it_read_again",)),
    Mutant("care: a window whose load has just ended is not requested", CONVERGENCE,
           "automation.watching:_Tick._decide", "if ask.partition not in loaded", "",
           (f"{SENSOR}a_window_whose_load_ends_during_a_look_is_not_requested_again",)),
    Mutant("care: a table that has changed since is not shown as it was", CONVERGENCE, "automation.overview:sight_of",
           "{*since, *last.behind, *last.unsure}", "{*last.behind, *last.unsure}",
           (f"{OVERVIEW}what_dagster_has_recorded_something_about_since_is_not_shown_as_it_was",)),
    Mutant("care: a table that was not looked at for a while is not shown as it was", CONVERGENCE,
           "automation.looks:Watched.may_have_changed", "or at - self.ended > RECENT", "",
           (f"{OVERVIEW}a_table_that_was_wiped_or_not_looked_at_for_a_while_is_not_shown_as_it_was",)),
    Mutant("care: a calendar has the windows since the earliest start", CONVERGENCE, "declaration.window:windows_at",
           "first < origin.start.astimezone(UTC) or", "",
           ("tests/declaration/test_window.py::"
            "test_definitions_that_start_at_different_times_share_their_windows",)),
    Mutant("care: a daemon takes the lock", CONVERGENCE, "runs.only_daemon:OnlyDaemon._lock_file",
           "not self._held.enter_context(exclusive(file, _PATIENCE))", "False",
           (DAEMON,)),
    Mutant("care: a look that hangs is not begun again", CONVERGENCE, "automation.watching:_Tick.run",
           "if one.look is None and one.due <= self.began:", "if one.due <= self.began:",
           (f"{SENSOR}sources_that_hang_or_fail_delay_no_other_table_and_are_not_asked_twice_at_once",)),
    Mutant("care: a folder that changed just before vouches for nothing", CONVERGENCE,
           "sources.files.folder_watch:FolderWatch.of", "changed > began - SETTLED_NS", "False",
           ("tests/sources/files/test_folder_watch.py::test_a_folder_that_changed_just_before_vouches_for_nothing",)),
    Mutant("care: a copied lake is not loaded", CONVERGENCE, "assets.run:materialize",
           "expect_known_lake(context.instance, table, context.resources.lake)", "pass",
           (f"{DOCTOR}a_copied_lake_is_told_and_no_run_writes_to_it",)),
    Mutant("care: a run does not write to another environment's lake", CONVERGENCE,
           "progress.lake_identity:expect_known_lake", "lake.expect_own(table.name)", "pass", (ENVIRONMENTS,)),
    Mutant("care: whoever works on a table writes to no other environment's lake", CONVERGENCE,
           "change_log.context:LoadContext.__post_init__", "self.lake.expect_own(self.table.name)", "pass",
           (ENVIRONMENTS,)),
    Mutant("care: nothing small is written to another environment's lake", CONVERGENCE, "platform.lake:Lake.append",
           'self.expect_own(uri.removeprefix(f"{self.root}/"))', "pass", (ENVIRONMENTS,)),
    Mutant("care: no lake is made in another environment's lake", CONVERGENCE, "platform.lake:Lake.not_own",
           "if self.environment and (owner := Lake(around).owner()) is not None:", "if False:", (ENVIRONMENTS,)),
    Mutant("care: many partitions are confirmed first", EXPLAIN, "cli.support.loads:ask_if_many",
           "if len(keys) <= MANY:", "if True:",
           ("tests/cli/test_many_partitions.py::"
            "test_the_question_has_number_first_last_and_the_time_by_the_last_loads",)),
    Mutant("care: a person confirms what cannot be taken back", EXPLAIN, "progress.confirmed:expect_confirmed",
           "if confirm != wanted:", "if False:", (CONFIRMED, ERASED)),
    Mutant("care: a launch by hand is no schedule's", EXPLAIN, "progress.confirmed:is_by_hand",
           "not in run.tags", "in run.tags", (CONFIRMED,)),
    Mutant("care: loads that Dagster does not know are told", EXPLAIN, "progress.progress:WindowProgress.is_forgotten",
           "return has_load and", "return False and",
           (f"{DOCTOR}lost_checkpoints_and_a_lost_table_are_told_with_their_remedies",)),
    Mutant("care: an entry carries the hash of the one before", EXPLAIN, "progress.audit:_altered",
           "if entry.before != before:", "if False:",
           (f"{AUDIT}an_altered_entry_is_named_however_it_was_altered[edited_with_its_hash-3]",)),
    Mutant("care: the last entry is not removed unnoticed", EXPLAIN, "progress.audit:_altered",
           "if fence > last:", "if False:",
           (f"{AUDIT}an_altered_entry_is_named_however_it_was_altered[removed_at_the_end-3]",)),
    Mutant("care: entries are written one after another", EXPLAIN, "progress.audit:_append_after",
           "if not lake.append(audit_uri(lake), _as_arrow(whole), WRITER, whole.number):", "if not lake.append("
           "audit_uri(lake), _as_arrow(whole), WRITER, (lake.transaction_version(audit_uri(lake), WRITER) or 0) + 1):",
           (f"{AUDIT}processes_that_write_at_once_give_one_unbroken_chain",)),
    Mutant("care: a run is in the audit as what it did", EXPLAIN, "history.manual_actions:runs_by_hand",
           'action=_ACTIONS.get(attempts[0].why, "load"),', 'action="load",',
           (f"{BY_HAND}runs_that_undo_release_and_load_are_recorded_once_as_what_they_did",)),
    Mutant("care: what a run recorded is not recorded again", EXPLAIN, "progress.audit:_lacking",
           "if (entry.action, entry.table, entry.run_id, key) not in known", "if True",
           (f"{BY_HAND}runs_that_undo_release_and_load_are_recorded_once_as_what_they_did",)),
    Mutant("care: a log that cannot be read hides no other table from the history", EXPLAIN,
           "history.collect:_Collector._logged", "with faults.of(table):", "if True:",
           (f"{DAMAGED}a_damaged_table_is_named_with_its_remedy_and_everything_about_the_others_is_there[torn log]",)),
    Mutant("care: an empty commit is no damage", EXPLAIN, "platform.unreadable:cut_at_a_line",
           "whole = bool(actions)", "whole = True",
           (f"{UNREADABLE}an_empty_newest_commit_is_named_although_readers_take_it_for_one_without_rows",)),
    Mutant("care: a commit without its fence is whole", EXPLAIN, "platform.unreadable:cut_at_a_line",
           '"txn" in actions[-1]', "True",
           (f"{UNREADABLE}a_commit_of_the_lakes_own_tables_is_named_if_it_ends_before_its_fence",)),
    Mutant("care: the doctor goes on after a table that cannot be read", EXPLAIN, "restore.doctor:examine",
           "faults.in_threads(chosen, look)", "[look(table) for table in chosen]",
           (f"{DAMAGED}a_damaged_table_is_named_with_its_remedy_and_everything_about_the_others_is_there[torn log]",)),
    Mutant("care: a table whose Delta log has changed is opened again", EXPLAIN,
           "platform.remembered:Remembered.recall", "if states[name] == state", "",
           (f"{MANY}one_table_among_many_that_cannot_be_read_is_named_and_only_that",)),
    Mutant("care: a remembered window record whose file is gone is missed", EXPLAIN,
           "change_log.window_records:_recalled", "if local is None or", "if True or",
           (f"{MANY}a_window_record_whose_file_is_gone_is_missed_although_it_is_remembered",)),
    Mutant("care: fences that are read together are those of the newest commits", EXPLAIN, "delta.fences:_all_versions",
           "delta.version() + 1", "since + 1",
           (f"{MANY}fences_that_are_read_together_are_those_that_delta_gives_for_each",)),
    Mutant("care: nightly jobs go on after a table that cannot be read", EXPLAIN,
           "maintenance.jobs:MaintenanceJob.definition", "with faults.of(by_name[name]):", "if True:",
           ("tests/maintenance/test_jobs.py::"
            "test_a_job_goes_on_after_a_table_that_cannot_be_read_and_fails_naming_it_alone",)),
    Mutant("care: the attempt after a killed one goes on where it stopped", IDLE,
           "maintenance.through:Through.__init__", 'if kept.get("run") == self.run', "if False",
           ("tests/maintenance/test_through.py::"
            "test_the_attempt_after_a_killed_one_goes_on_where_it_stopped_and_says_how_long_it_took",)),
    Mutant("care: a quiet table records no results", IDLE, "checks.recording:record_if_new",
           "and not is_news(result, last):", "and False:",
           (f"{RECORDING}a_quiet_table_writes_again_after_six_hours_and_a_change_at_once",)),
    Mutant("care: a finding is recorded at once", EXPLAIN, "checks.recording:record_if_new",
           "and not is_news(result, last):", ":",
           (f"{RECORDING}a_quiet_table_writes_again_after_six_hours_and_a_change_at_once",)),
    Mutant("care: of repeated results the last replaces the one before", IDLE, "progress.repeats:record_repeat",
           "_remove(instance, record)", "pass",
           (f"{RECORDING}of_results_that_say_the_same_the_first_and_the_last_are_kept_so_that_history_does_not_grow",)),
    Mutant("care: an older observation hides no newer result", EXPLAIN, "checks.recording:record_if_new",
           "if newer is not None and newer[0] > at:", "if False:",
           (f"{RECORDING}a_result_of_a_load_that_ended_meanwhile_stays_the_last",)),
    Mutant("care: a result that a failed run hides is recorded again", EXPLAIN, "progress.verdicts:last_verdicts",
           "if not shown or without[key] in alive else None", "if True else None",
           (f"{RECORDING}a_result_that_a_failed_run_hides_is_recorded_again",)),
    Mutant("care: nobody is sent to remove a commit that later ones build on", EXPLAIN, "platform.unreadable:_torn",
           "if newest and int(name[:20]) > 0:", "if int(name[:20]) > 0:",
           ("tests/platform/test_unreadable.py::test_an_older_torn_commit_is_not_to_be_removed",)),
]  # fmt: skip

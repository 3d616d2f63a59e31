"""Mutants of what people do about tables: the audit, pauses and the lake's identity."""

from tests.mutations.mutant import CONVERGENCE, EXPLAIN, Mutant

DOCTOR = "tests/recovery/test_doctor.py::test_"
PAUSES = "tests/recovery/test_jobs_doctor.py::test_"
DAMAGED = "tests/cli/test_damaged_tables.py::test_"
AUDIT = "tests/progress/test_audit.py::test_"

MUTANTS_OF_CARE = [
    Mutant("care: a paused table is not loaded", CONVERGENCE, "assets.run:materialize",
           "expect_not_paused(context.resources.lake, table.name)", "pass",
           (f"{PAUSES}a_run_that_loads_already_is_not_stopped_by_a_pause",)),
    Mutant("care: a sensor requests nothing of a paused table", CONVERGENCE, "automation.source_sensor:source_sensor",
           "if (paused := pause_of(lake, table.name, at)) is not None:", "if (paused := None):",
           (f"{PAUSES}a_table_paused_from_the_ui_is_watched_and_not_loaded_until_it_is_resumed",)),
    Mutant("care: a copied lake is not loaded", CONVERGENCE, "assets.run:materialize",
           "expect_known_lake(context.instance, table, context.resources.lake)", "pass",
           (f"{DOCTOR}a_copied_lake_is_told_and_no_run_writes_to_it",)),
    Mutant("care: an entry carries the hash of the one before", EXPLAIN, "progress.audit_chain:_altered",
           "if entry.before != before:", "if False:",
           (f"{AUDIT}an_altered_entry_is_named_however_it_was_altered[edited_with_its_hash-3]",)),
    Mutant("care: the last entry is not removed unnoticed", EXPLAIN, "progress.audit_chain:_altered",
           "if fence > last:", "if False:",
           (f"{AUDIT}an_altered_entry_is_named_however_it_was_altered[removed_at_the_end-3]",)),
    Mutant("care: entries are written one after another", EXPLAIN, "progress.audit:append_after",
           "if not lake.append(audit_uri(lake), _as_arrow(whole), WRITER, whole.number):", "if not lake.append("
           "audit_uri(lake), _as_arrow(whole), WRITER, (lake.transaction_version(audit_uri(lake), WRITER) or 0) + 1):",
           (f"{AUDIT}processes_that_write_at_once_give_one_unbroken_chain",)),
    Mutant("care: a log that cannot be read hides no other table from the history", EXPLAIN,
           "monitoring.collect:_Collector._logged", "with faults.of(table):", "if True:",
           (f"{DAMAGED}a_damaged_table_is_named_with_its_remedy_and_everything_about_the_others_is_there[torn log]",)),
    Mutant("care: the doctor goes on after a table that cannot be read", EXPLAIN, "recovery.doctor:examine",
           "with faults.of(table):", "if True:",
           (f"{DAMAGED}a_damaged_table_is_named_with_its_remedy_and_everything_about_the_others_is_there[torn log]",)),
    Mutant("care: nightly jobs go on after a table that cannot be read", EXPLAIN,
           "maintenance.jobs:MaintenanceJob.definition", "with faults.of(by_name[name]):", "if True:",
           ("tests/maintenance/test_jobs.py::"
            "test_a_job_goes_on_after_a_table_that_cannot_be_read_and_fails_naming_it_alone",)),
    Mutant("care: nobody is sent to remove a commit that later ones build on", EXPLAIN, "resources.unreadable:_torn",
           "if newest and int(name[:20]) > 0:", "if int(name[:20]) > 0:",
           ("tests/resources/test_unreadable.py::test_an_older_torn_commit_is_not_to_be_removed",)),
]  # fmt: skip

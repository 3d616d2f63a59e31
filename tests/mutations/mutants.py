"""For each law the lines that keep it, how to break them, and the tests that must then fail."""

from dataclasses import dataclass

LOADING = "incload_assets/loading"
LOAD = "tests/loading/test_load.py::test_"
LAWS = "tests/mutations/test_laws.py::test_"
CRASHES = "tests/integration/test_crashes.py::test_"
CONCURRENCY = "tests/integration/test_concurrency.py::test_"
ACCOUNTING = "tests/integration/test_accounting.py::test_"


@dataclass(frozen=True)
class Mutant:
    """A line that is broken.

    Args:
        name: What is broken.
        law: What the line is there for.
        file: Where it is, from the project's root.
        old: The source, which stands there exactly once.
        new: What it becomes.
        tests: Node ids; at least one of these tests must fail.
    """

    name: str
    law: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


CONVERGENCE = "1 the table is the fold of its changes, whatever the order, batches and crashes of loads"
CHECKPOINT = "2 the checkpoint is last"
BINS = "4 each row read falls in exactly one bin"
PARTITION = "5 only this partition is read and written"
INSTANTS = "7 instants in UTC, to the microsecond; casts that fail give a reason"

MUTANTS = [
    Mutant("sequence guard of the MERGE", CONVERGENCE, f"{LOADING}/folding.py",
           "ELSE {seen} < s._order END", "ELSE true END",
           (f"{LAWS}a_plan_that_another_window_overtook_leaves_its_newer_row_alone[False]",)),
    Mutant("guard of the MERGE after a full fold", CONVERGENCE, f"{LOADING}/folding.py",
           "WHEN s._full THEN {seen} <=> s._seen", "WHEN s._full THEN true",
           (f"{LAWS}a_plan_that_another_window_overtook_leaves_its_newer_row_alone[True]",)),
    Mutant("older updates", CONVERGENCE, f"{LOADING}/folding.py",
           '.when(~gone & older, "update")', '.when(~gone & differs, "update")',
           (f"{LOAD}equal_sequences_are_decided_by_content_in_any_order_of_loads",)),
    Mutant("older deletes", CONVERGENCE, f"{LOADING}/folding.py",
           'F.when(gone & ~absent & older, "delete")', 'F.when(gone & ~absent, "delete")',
           (f"{LOAD}deletes_are_remembered_and_older_rows_stay_out",)),
    Mutant("deletes looked up in the log", CONVERGENCE, f"{LOADING}/folding.py",
           'F.greatest("_delete_order", "_best").alias("_order")', 'F.col("_best").alias("_order")',
           (f"{LOAD}deletes_are_remembered_and_older_rows_stay_out",)),
    Mutant("deletes of the same sequence looked up", CONVERGENCE, f"{LOADING}/folding.py",
           "deletes.filter(col(column) >= oldest)", "deletes.filter(col(column) > oldest)",
           (f"{LAWS}a_delete_wins_against_upserts_of_its_sequence_from_any_window",)),
    Mutant("newest change per key", CONVERGENCE, f"{LOADING}/folding.py",
           'F.max_by("_r", "_o")', 'F.min_by("_r", "_o")',
           (f"{LOAD}the_newest_change_of_a_batch_wins_and_every_row_is_in_one_bin",)),
    Mutant("tie-break by content", CONVERGENCE, f"{LOADING}/columns.py",
           "f\"'hash', {content_hash}\"])", "f\"'hash', 0L\"])",
           (f"{LOAD}equal_sequences_are_decided_by_content_in_any_order_of_loads",)),
    Mutant("delete after upsert at one sequence", CONVERGENCE, f"{LOADING}/columns.py",
           "[*sequence, f\"'delete', {is_delete}\", f\"'hash', {content_hash}\"]",
           "[*sequence, f\"'hash', {content_hash}\", f\"'delete', {is_delete}\"]",
           (f"{LAWS}a_delete_wins_against_upserts_of_its_sequence_from_any_window",)),
    Mutant("fence of the MERGE", CONVERGENCE, f"{LOADING}/writes/merging.py",
           "return max(at.landing << LANDING_SHIFT, at.fence) + 1", "return __import__('time').time_ns()",
           (f"{CRASHES}a_merge_that_begins_after_its_successor_finished_changes_nothing",)),
    Mutant("a MERGE that Delta skipped is lost", CONVERGENCE, f"{LOADING}/writes/merging.py",
           "if counts is None:\n        return None", "if counts is None:\n        return Merged()",
           (f"{CRASHES}a_merge_that_begins_after_its_successor_finished_changes_nothing",)),
    Mutant("fence of the landing", CONVERGENCE, f"{LOADING}/landing.py",
           '.option("txnVersion", number)', '.option("txnVersion", __import__("time").time_ns())',
           (f"{LAWS}a_landing_that_was_held_back_is_refused_after_its_repetition",)),
    Mutant("a landing looks whether it was its own", CONVERGENCE, f"{LOADING}/landing.py",
           "return all(\n        key in after", "return True or all(\n        key in after",
           (f"{LAWS}a_landing_that_was_held_back_is_refused_after_its_repetition",)),
    Mutant("an unclean landing again", CONVERGENCE, f"{LOADING}/load.py",
           "if same and (settled or landed):", "if same:",
           (f"{LAWS}a_landing_that_was_held_back_is_refused_after_its_repetition",)),
    Mutant("pinned version of the table", CONVERGENCE, f"{LOADING}/context.py",
           '.option("versionAsOf", at.table_version)', "",
           (f"{LAWS}a_plan_is_of_the_versions_that_it_was_made_from",)),
    Mutant("pinned version of the log", CONVERGENCE, f"{LOADING}/change_log.py",
           '.option("versionAsOf", version)', "",
           (f"{LAWS}a_plan_is_of_the_versions_that_it_was_made_from",)),
    Mutant("the table is looked at before the log", CONVERGENCE, f"{LOADING}/context.py",
           "table_version = self.lake.version(self.uri)",
           "log_first = self.log.version()\n        table_version = self.lake.version(self.uri)\n"
           "        self.log.version = lambda: log_first  # type: ignore[method-assign]",
           (f"{LAWS}a_load_between_the_two_looks_of_a_snapshot_is_not_undone",)),
    Mutant("markers of rows taken away", CONVERGENCE, f"{LOADING}/landing.py",
           'F.count(F.when(F.col("_kind") == REPLACED, 1))', 'F.count(F.when(F.col("_kind") == "none", 1))',
           (f"{LOAD}rows_that_leave_a_rewritten_file_are_taken_back",)),
    Mutant("markers carried on", CONVERGENCE, f"{LOADING}/landing.py",
           "if not landing.settled:", "if False:",
           (f"{LAWS}a_key_withdrawn_by_a_load_that_was_killed_is_withdrawn_by_the_next",)),
    Mutant("NULL in a key is rejected", CONVERGENCE, f"{LOADING}/judging.py",
           'F.when(col(name).isNull(), F.lit(f"{name}: NULL, but it identifies the row"))',
           'F.when(F.lit(False), F.lit(f"{name}: NULL, but it identifies the row"))',
           (f"{LOAD}composite_keys_never_collide_and_a_null_in_a_key_is_quarantined",)),
    Mutant("a run fails with its loads", CHECKPOINT, f"{LOADING}/asset.py",
           "    if failures:\n        _fail(", "    if False:\n        _fail(",
           ("tests/automation/test_partition_status.py::test_each_partition_shows_how_its_own_load_ended",)),
    Mutant("the position is the checkpoint", CHECKPOINT, f"{LOADING}/asset.py",
           "metadata=metadata, data_version=version)", "metadata=metadata)",
           ("tests/automation/test_partition_status.py::test_each_partition_shows_how_its_own_load_ended",)),
    Mutant("reconciliation", BINS, f"{LOADING}/applying.py",
           "if not pending:", "if True:",
           (f"{ACCOUNTING}a_merge_that_lost_a_row_once_is_made_good_by_the_same_load",)),
    Mutant("bins", BINS, f"{LOADING}/applying.py",
           'check_bins(found, f"{table.name} {key}")', "pass",
           (f"{ACCOUNTING}a_broken_step_fails_the_load[landing_loses_a_row-ReconciliationFailed-"
            "3 rows were read, but 2 applied]",)),
    Mutant("row-wise function", BINS, f"{LOADING}/landing.py",
           "    if read != judged:", "    if False:",
           (f"{ACCOUNTING}a_broken_step_fails_the_load[judging_loses_a_row-DeclarationError-made 2 rows of 3]",)),
    Mutant("threshold of rejected rows", BINS, f"{LOADING}/landing.py",
           "check_threshold(judged, table, window, facts.rows, facts.rejected)", "pass",
           (f"{LOAD}a_stopped_load_keeps_what_the_partition_had",)),
    Mutant("literal partitions of the MERGE", PARTITION, f"{LOADING}/writes/merging.py",
           'on.insert(0, f"t.{quoted(partition)} IN ({listed})" if values else "false")', "pass",
           (f"{CONCURRENCY}loads_of_different_partitions_commit_beside_each_other_without_a_retry",
            f"{LAWS}a_load_reads_no_file_of_other_partitions_and_windows")),
    Mutant("literal partitions of the plan", PARTITION, f"{LOADING}/folding.py",
           "if column is None or (values := at.partitions) is None:", "if True:",
           (f"{LAWS}a_load_reads_no_file_of_other_partitions_and_windows",)),
    Mutant("sessions in UTC", INSTANTS, "resources/spark_conf.py",
           '"spark.sql.session.timeZone": "UTC"', '"spark.sql.session.timeZone": "Asia/Tokyo"',
           ("tests/resources/test_spark.py::test_a_session_has_delta_and_speaks_utc_and_ansi",)),
    Mutant("casts that fail", INSTANTS, f"{LOADING}/contract_types.py",
           "    cast = text.try_cast(target)", "    cast = text.cast(target)",
           ("tests/loading/test_contract.py::"
            "test_a_raw_value_that_cannot_become_its_type_is_null_and_named_unless_it_is_personal",)),
    Mutant("microseconds in the hash", INSTANTS, f"{LOADING}/columns.py",
           'return f"xxhash64(to_json(struct({row}), {_MICROSECONDS}))"', 'return f"xxhash64(to_json(struct({row})))"',
           (f"{LOAD}a_correction_of_one_microsecond_takes_effect",)),
]  # fmt: skip

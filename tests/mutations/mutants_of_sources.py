"""For what each source promises, the lines that keep it; see :mod:`tests.mutations.mutants`."""

from tests.mutations.mutant import BINS, CONVERGENCE, INSTANTS, Mutant

SOURCES = "incload_assets/loading/sources"
IN_SOURCES = "tests/loading/sources"
BY_TIME, BY_ID, KAFKA, DEBEZIUM, SEVERAL, TABLES = (
    f"{IN_SOURCES}/test_{name}.py::"
    for name in ("query_by_time", "query_by_id", "kafka", "debezium", "several", "tables")
)

MUTANTS_OF_SOURCES = [
    Mutant("by time: open transactions are waited for", CONVERGENCE, f"{SOURCES}/database_closing.py",
           "if begin is None or begin < edge}", "if False}",
           (f"{BY_TIME}test_a_row_that_a_long_transaction_commits_late_is_found",)),
    Mutant("by time: prepared transactions are waited for", CONVERGENCE, f"{SOURCES}/database_closing.py",
           "if server.prepared:", "if False:",
           (f"{BY_TIME}test_a_prepared_transaction_is_waited_for",)),
    Mutant("by time: what is older is of the first window", BINS, f"{SOURCES}/query_by_time.py",
           "None if w.start == first else micros(w.start)", "micros(w.start)",
           (f"{BY_TIME}test_what_is_older_or_undated_is_of_the_first_window_and_no_row_is_outside",)),
    Mutant("by time: windows are half-open", INSTANTS, f"{SOURCES}/query_by_time.py",
           "micros(w.start), micros(w.end))", "micros(w.start), micros(w.end) + 1)",
           (f"{BY_TIME}test_a_window_is_half_open_to_the_microsecond_in_utc",)),
    Mutant("by id: windows tile", BINS, f"{SOURCES}/query_by_id.py",
           'start["id"] + 1, end["id"] + 1)', 'start["id"], end["id"] + 1)',
           (f"{BY_ID}test_windows_tile_by_what_was_visible_at_their_end",)),
    Mutant("by id: numbers that begin again are refused", CONVERGENCE, f"{SOURCES}/query_by_id.py",
           "            _check_growth(table, relation, column, highest, written.values())\n", "",
           (f"{BY_ID}test_numbers_that_begin_again_stop_the_load",)),
    Mutant("by id: a cut is not moved back", CONVERGENCE, f"{SOURCES}/query_by_id.py",
           "max([now, *known.values()], key=", "max([now], key=",
           (f"{BY_ID}test_of_two_who_look_at_once_the_one_who_saw_less_moves_no_window_back",)),
    Mutant("by id: sessions that cache numbers are waited for", CONVERGENCE, f"{SOURCES}/query_by_id.py",
           "by_session=(column.cache or 1) > 1", "by_session=False",
           (f"{BY_ID}test_with_a_cache_in_the_sequence_sessions_are_waited_for",)),
    Mutant("kafka: a topic made again is refused", CONVERGENCE, f"{SOURCES}/kafka_windows.py",
           "if look.identity == expected:", "if True:",
           (f"{KAFKA}TestWindows::test_a_topic_made_again_is_refused",)),
    Mutant("kafka: a record dated in the future moves no cut", CONVERGENCE, f"{SOURCES}/kafka_windows.py",
           "if p in records and records[p].time <= now else end", "if p in records else end",
           (f"{KAFKA}TestWindows::test_a_record_dated_in_the_future_does_not_keep_what_follows_for_its_own_window",)),
    Mutant("kafka: what was landed is not taken back", CONVERGENCE, f"{SOURCES}/kafka_windows.py",
           "lowest = {**self.landed.get(at, {})}", "lowest: dict[int, int] = {}",
           (f"{KAFKA}TestWindows::test_the_open_window_goes_to_the_end_of_the_log_and_its_end_takes_back_nothing",)),
    Mutant("debezium: the place of a change is after the commits before it", CONVERGENCE,
           f"{SOURCES}/debezium_envelope.py",
           "F.greatest(own, committed, read), of_row", "own, of_row",
           (f"{DEBEZIUM}test_rows_of_snapshots_are_older_than_changes_committed_after_them_wherever_those_lie_in_the_log",)),
    Mutant("debezium: events of other tables are no changes", BINS, f"{SOURCES}/debezium_events.py",
           '.when(whole & op.isin(*_OPERATIONS) & ~F.col("__own"), F.concat(F.lit(ELSEWHERE), F.col("__table")))', "",
           (f"{DEBEZIUM}test_creates_updates_deletes_and_snapshot_rows_make_the_table_and_every_record_is_counted",)),
    Mutant("tables: rows are read at the versions looked at", CONVERGENCE, f"{SOURCES}/references.py",
           '.option("versionAsOf", version).load(path)', ".load(path)",
           (f"{TABLES}test_rows_are_read_at_the_versions_that_were_looked_at",)),
    Mutant("several: the one named first has priority", CONVERGENCE, f"{SOURCES}/several.py",
           "OfSource(name, -number, read)", "OfSource(name, number, read)",
           (f"{SEVERAL}test_of_two_sources_that_tell_of_a_key_at_once_the_one_named_first_counts",)),
    Mutant("several: a window waits for each that waits", BINS, f"{SOURCES}/several.py",
           "if not waits and any(", "if any(",
           (f"{SEVERAL}test_a_window_waits_for_the_sources_that_are_not_declared_empty",)),
    Mutant("several: rows of another source do not go for those shown", CONVERGENCE, f"{SOURCES}/several.py",
           "for name, part in self.sources.items() if not part.keeps]), name)", "for name in ()]), name)",
           (f"{SEVERAL}test_only_a_source_that_keeps_rows_keeps_those_it_no_longer_shows",)),
    Mutant("several: rows stay whose file is gone", CONVERGENCE, f"{SOURCES}/several.py",
           "for place in _placed(name, part.carried(of))]", "for place in part.carried(of)]",
           (f"{SEVERAL}test_the_rows_of_a_file_that_is_gone_stay_and_it_is_named_with_its_source",)),
]  # fmt: skip

"""Mutants of contracts that change: which differences stop a load, and what is told of them."""

from tests.mutations.mutant import BINS, CONVERGENCE, EXPLAIN, IDLE, Mutant

STORED = "tests/delta/test_differences.py::test_"
DECLARED = "tests/contract/test_differences.py::test_"
TABLES = "tests/delta/test_tables.py::test_"
EVOLUTION = "tests/load/test_evolution.py::test_"
BY_NAME = f"{STORED}columns_and_members_are_compared_by_their_names"
PROPERTY = f"{STORED}a_property_with_another_value_is_of_a_kind_of_its_own_and_one_that_is_missing_is_set"
OTHER_TYPE = f"{STORED}a_type_that_would_round_or_read_values_otherwise_is_another_type"
FIRST = f"{STORED}what_stops_a_load_is_first_and_says_what_to_write_instead"
AS_TOLD = f"{EVOLUTION}what_is_told_of_a_difference_is_what_a_load_does"

WIDENING = "tests/load/test_widening.py::test_"
ADAPTED = f"{STORED}what_a_declaration_allows_decides_about_additions_and_wider_types"

FILL = "tests/load/test_fill.py::test_"

MUTANTS_OF_CONTRACTS = [
    Mutant("evolution: a fill judges what it fills", BINS, "ingest.rescued:filled",
           'F.when(judging.getField("is_upsert"), reasons).otherwise(none)', "none",
           (f"{FILL}values_that_do_not_fit_are_quarantined_and_filled_when_the_contract_fits",)),
    Mutant("evolution: a fill takes rescued values", CONVERGENCE, "ingest.rescued:_takes",
           "return _is_there(name) &", "return F.lit(False) &",
           (f"{FILL}a_filled_table_equals_one_that_is_loaded_fresh[json]",)),
    Mutant("evolution: a fill sets columns of partial changes", CONVERGENCE, "ingest.rescued:_still_unset",
           "F.array_except(were, not_null(*(F.when(is_set(name), F.lit(name)) for name in names)))", "were",
           (f"{FILL}a_filled_table_equals_one_that_is_loaded_fresh[partial]",)),
    Mutant("evolution: a fill does not guess what the function makes", CONVERGENCE, "load.fill:_refuse_other_uses",
           "if not (made or in_conditions or in_order):", "if True:",
           (f"{FILL}what_the_function_makes_of_a_new_column_is_not_guessed",)),
    Mutant("evolution: a fill speaks for the present code only if that is proven", EXPLAIN, "load.fill:_land_once",
           "is_present = before.code_version in _versions_without(table, names)", "is_present = True",
           (f"{FILL}a_window_is_judged_by_the_present_code_if_that_differs_by_the_columns_alone",)),
    Mutant("evolution: types whose values get another text", CONVERGENCE, "delta.differences:_holds_text",
           "return wide.scale == (narrow.scale if isinstance(narrow, T.DecimalType) else 0)", "return True",
           (ADAPTED,)),
    Mutant("evolution: types of columns that place rows", CONVERGENCE, "delta.differences:widened_columns",
           " or one.name in adaptation.places", "", (ADAPTED,)),
    Mutant("evolution: columns that no load adds", EXPLAIN, "delta.differences:_adapted",
           "if not adaptation.add and", "if False and", (ADAPTED,)),
    Mutant("evolution: rows of others while a table is widened", CONVERGENCE, "delta.tables:_widen",
           'rows = spark.read.format("delta").load(',
           'rows = spark.read.format("delta").option("versionAsOf", delta.version()).load(',
           (f"{WIDENING}a_row_that_comes_between_the_look_at_a_table_and_its_rewrite_stays",)),
    Mutant("evolution: unknown fields that stop a load", BINS, "ingest.quarantine:check_unknown_fields",
           "    if not found:", "    if True:",
           (f"{WIDENING}fields_outside_the_contract_stop_a_load_where_that_is_declared",)),
    Mutant("evolution: another type is a difference", CONVERGENCE, "delta.differences:_of_columns",
           "elif old.simpleString() != new.simpleString():", "elif False:", (OTHER_TYPE,)),
    Mutant("evolution: another spelling stops a load", CONVERGENCE, "delta.differences:_of_columns",
           "elif found != one.name:", "elif False:", (FIRST,)),
    Mutant("evolution: a dropped member stops a load", CONVERGENCE, "delta.differences:_of_columns",
           "kind = MEMBER_DROPPED if within else", "kind = DROPPED if within else", (BY_NAME,)),
    Mutant("evolution: a column of a whole row is not dropped", CONVERGENCE, "delta.differences:_of_columns",
           "DROPPED_CONTENT if whole else DROPPED", "DROPPED",
           (f"{STORED}a_column_less_stops_a_load_only_where_the_whole_content_identifies_a_row",)),
    Mutant("evolution: another partitioning stops a load", CONVERGENCE, "delta.differences:_of_layout",
           "if has.partitioned_by != declared.partitioned_by:", "if False:",
           (FIRST, f"{TABLES}another_partitioning_is_refused_before_any_write")),
    Mutant("evolution: other properties of rows stop a load", CONVERGENCE, "delta.differences:_of_properties",
           "if name.startswith(OWN) and was is not None else SETTING", "if False else SETTING",
           (PROPERTY, f"{TABLES}other_keys_or_another_way_of_writing_are_refused_before_any_write")),
    Mutant("evolution: a property that is missing is set", CONVERGENCE, "delta.differences:_of_properties",
           " and was is not None", "", (PROPERTY,)),
    Mutant("evolution: a rounded number is no wider one", EXPLAIN, "delta.differences:_holds_value",
           "return digits is not None and wide.precision - wide.scale >= digits", "return digits is not None",
           (OTHER_TYPE,)),
    Mutant("evolution: a load looks at what stops it", CONVERGENCE, "delta.tables:check_table",
           "if stopping:", "if False:", (f"{AS_TOLD}[type_widened]",)),
    Mutant("evolution: the log is compared, too", EXPLAIN, "load.evolution:lake_differences",
           "of_log = [] if in_log is None else", "of_log = [] if True else",
           (f"{AS_TOLD}[setting_of_a_Delta_table_changed]",)),
    Mutant("evolution: other code is told until the newest window has loaded", EXPLAIN,
           "load.evolution:lake_differences",
           'if record.code_version not in ("", table.code_version):', "if False:",
           (f"{EVOLUTION}windows_that_were_loaded_by_other_code_are_told_until_the_newest_loads_again",)),
    Mutant("evolution: a run that adds columns is recorded", EXPLAIN, "load.tables:ensure_tables",
           "if any(added) and ensure is None:", "if False:",
           (f"{EVOLUTION}the_audit_tells_which_run_added_columns_and_says_nothing_of_loads_that_added_none",)),
    Mutant("evolution: a load that adds nothing is not recorded", IDLE, "load.tables:ensure_tables",
           "if any(added) and ensure is None:", "if ensure is None:",
           (f"{EVOLUTION}the_audit_tells_which_run_added_columns_and_says_nothing_of_loads_that_added_none",)),
    Mutant("evolution: an audit that fails stops no load", CONVERGENCE, "load.tables:_audit",
           "except IncrementalLoadError as error:", "except ZeroDivisionError as error:",
           (f"{EVOLUTION}an_audit_that_cannot_be_written_stops_no_load",)),
    Mutant("evolution: a renamed column is not guessed", EXPLAIN, "contract.differences:renamed",
           "if len(same) == 1 and", "if same and",
           (f"{DECLARED}there_is_no_hint_at_a_renamed_column_where_it_would_be_a_guess",)),
    Mutant("evolution: one of two dropped columns is not guessed", EXPLAIN, "contract.differences:renamed",
           " and [one.was for one in dropped].count(old.was) == 1", "",
           (f"{DECLARED}two_dropped_columns_of_the_type_of_an_added_one_are_no_hint_either",)),
    Mutant("evolution: a file of another format is not read", EXPLAIN, "contract.described:from_json",
           "if known != FORMAT:", "if False:",
           ("tests/contract/test_described.py::test_another_file_is_refused_with_the_command_that_writes_one",)),
    Mutant("evolution: the exit code tells what stops loads", EXPLAIN, "cli.contract_view:exit_code",
           "if any(line.found.stops for line in lines):", "if False:",
           ("tests/cli/test_contract_view.py::test_the_exit_code_is_one_only_if_something_stops_loads",)),
]  # fmt: skip

"""Mutants of secrets by name: where they come from, and that nobody else sees them."""

from tests.mutations.mutant import EXPLAIN, PROTECTION, Mutant

STORE = "tests/platform/test_secret_store.py::test_"

MUTANTS_OF_SECRETS = [
    Mutant("secrets: a name is checked", PROTECTION, "platform.secret_store:resolved",
           "if not NAME.fullmatch(name):", "if False:", (f"{STORE}a_name_is_no_option_and_no_way_out",)),
    Mutant("secrets: one place", EXPLAIN, "platform.secret_store:resolved",
           "if bool(command) == bool(folder):", "if False:", (f"{STORE}one_place_is_set",)),
    Mutant("secrets: a rotated one is found", EXPLAIN, "platform.secret_store:resolved",
           " or time.monotonic() - known[0] > MAX_AGE_SECONDS", "",
           (f"{STORE}a_rotated_secret_is_found_after_some_minutes",)),
    Mutant("secrets: an empty one is none", EXPLAIN, "platform.secret_store:resolved",
           "if not found:", "if False:", (f"{STORE}a_command_that_fails_is_told_without_its_output",)),
    Mutant("secrets: errors of a command are dropped", PROTECTION, "platform.secret_store:_of_command",
           "stderr=subprocess.DEVNULL", "stderr=None",
           (f"{STORE}a_command_that_fails_is_told_without_its_output",)),
    Mutant("secrets: a failed command gives none", EXPLAIN, "platform.secret_store:_of_command",
           "if process.returncode:", "if False:", (f"{STORE}a_command_that_fails_is_told_without_its_output",)),
    Mutant("secrets: what a command has started ends", EXPLAIN, "platform.secret_store:_of_command",
           "os.killpg(process.pid, signal.SIGKILL)", "process.kill()",
           (f"{STORE}a_command_that_hangs_is_ended_with_what_it_has_started",)),
    Mutant("secrets: files that others may read are refused", PROTECTION, "platform.secret_store:_of_folder",
           "found.st_mode & _OTHERS or ", "",
           (f"{STORE}a_folder_that_others_may_enter_and_a_file_that_they_may_read_are_refused",)),
]  # fmt: skip

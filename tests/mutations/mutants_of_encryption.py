"""Mutants of tokens that can be turned back, and of keys of persons."""

from tests.mutations.mutant import PROTECTION, Mutant

ENCRYPTED = "tests/ingest/test_encrypted.py::test_"

MUTANTS_OF_ENCRYPTION = [
    Mutant(
        "encryption: a key of each person",
        PROTECTION,
        "ingest.tokens:sealed_column",
        "(ENCRYPTED, secret)",
        '(ENCRYPTED, F.lit(b""))',
        (f"{ENCRYPTED}values_are_in_no_file_and_whoever_has_the_keys_reads_them",),
    ),
    Mutant(
        "encryption: a nonce of its own for each value",
        PROTECTION,
        "ingest.tokens:sealed_column",
        "F.lit(SEALING_NONCE), of_person, plain",
        "F.lit(SEALING_NONCE), of_person",
        (f"{ENCRYPTED}a_token_is_made_alike_in_spark_and_without_and_names_a_row",),
    ),
    Mutant(
        "encryption: random secrets",
        PROTECTION,
        "change_log.person_keys:_random",
        "F.concat(different, F.lit(str(each)))",
        'F.lit("x")',
        (f"{ENCRYPTED}keys_of_persons_are_random_and_deleted_one_by_one",),
    ),
    Mutant(
        "encryption: one key of a person",
        PROTECTION,
        "change_log.person_keys:_create_missing",
        'wanted.join(stored_keys(spark, lake, kind, parts), PERSON, "left_anti")',
        "wanted",
        (f"{ENCRYPTED}loads_at_once_give_a_person_one_key",),
    ),
    Mutant(
        "encryption: no key for erased persons",
        PROTECTION,
        "change_log.person_keys:keys_of_persons",
        "if deny:",
        "if False:",
        (f"{ENCRYPTED}keys_of_persons_are_random_and_deleted_one_by_one",),
    ),
    Mutant(
        "encryption: values without a person",
        PROTECTION,
        "ingest.protect:_broken",
        "persons.are_complete",
        "False",
        (f"{ENCRYPTED}a_value_without_a_person_goes_to_quarantine_and_is_kept_nowhere",),
    ),
    Mutant(
        "encryption: the key goes with the person",
        PROTECTION,
        "recovery.erase:Eraser._forget_keys",
        "keys = forget_persons(self.lake, self.kind, self.fingerprints)",
        "keys = 1",
        (f"{ENCRYPTED}without_the_persons_key_nobody_reads_a_value_in_any_copy_of_the_lake",),
    ),
    Mutant(
        "encryption: old files of keys",
        PROTECTION,
        "recovery.erase:Eraser._forget_keys",
        "self._without_old_versions(uri)",
        "Removed()",
        (f"{ENCRYPTED}without_the_persons_key_nobody_reads_a_value_in_any_copy_of_the_lake",),
    ),
    Mutant(
        "encryption: another key of erasures",
        PROTECTION,
        "change_log.person_keys:_create_missing",
        "_check_fingerprints(delta)",
        "pass",
        (f"{ENCRYPTED}another_key_of_erasures_is_refused_before_a_person_gets_a_second_key",),
    ),
    Mutant(
        "encryption: previews",
        PROTECTION,
        "ingest.protect:person_keys_of",
        "create and lake.is_written",
        "create",
        (f"{ENCRYPTED}a_preview_gives_nobody_a_key",),
    ),
]

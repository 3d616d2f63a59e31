"""The table of mutants keeps up with the program."""

import ast
from pathlib import Path

import pytest

from tests.mutations.mutant import Mutant
from tests.mutations.mutants import MUTANTS
from tests.mutations.run import is_killed
from tests.support.sampling import NIGHT

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_replaces_source_that_stands_once_and_names_tests_that_exist(mutant: Mutant) -> None:
    source = (PROJECT / mutant.file).read_text()
    ast.parse(mutant.applied(source))
    for test in mutant.tests:
        file, _, rest = test.partition("::")
        functions = {
            n.name for n in ast.walk(ast.parse((PROJECT / file).read_text())) if isinstance(n, ast.FunctionDef)
        }
        assert rest.partition("[")[0].rpartition("::")[2] in functions


if NIGHT:  # a minute or more each: as an ordinary test, whoever names this file would wait for hours

    @pytest.mark.timeout(3600)
    @pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
    def test_a_test_notices_a_mutant(mutant: Mutant, spark_url: str, tmp_path: Path) -> None:
        assert is_killed(mutant, tmp_path / "mutant", spark_url)

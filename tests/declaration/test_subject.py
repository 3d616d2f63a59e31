"""Whose rows a table has: what a declaration may say."""

from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.assets import Masked, Merge, Subject
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import DatedItem, declared


class Guest(DatedItem):
    """An item of a person, in two spellings."""

    person: T.StringType = pa.Field(nullable=True)
    weight: T.DoubleType = pa.Field(nullable=True)
    card: T.StringType = pa.Field(nullable=True, metadata={"personal": Masked(keep=4)})


@pytest.mark.parametrize(
    ("subject", "write", "problem"),
    [
        (Subject("Big Customer", by="person"), Merge(), "subject.kind is 'Big Customer'.*one word in lower case"),
        (Subject("guest", by="nobody"), Merge(), "subject.by is 'nobody', which Guest does not have.*name one of id"),
        (Subject("guest", by="weight"), Merge(), "subject.by is 'weight' of type double.*one spelling"),
        (Subject("guest", by="card"), Merge(), r"subject.by is 'card', which is Masked\(keep=4\).*Hashed"),
        (
            Subject("guest", by="person"),
            Merge(partition_by="person"),
            "subject.by .* so is write.partition_by.*buckets",
        ),
    ],
)
def test_a_subject_that_could_not_be_found_or_erased_fails_when_the_module_is_imported(
    subject: Subject, write: Any, problem: str
) -> None:
    with pytest.raises(DeclarationError, match=rf"items: {problem}"):
        declared(contract=Guest, subject=subject, write=write)


def test_a_person_is_named_by_a_text_or_a_whole_number() -> None:
    for by in ("person", "seq"):
        declared(contract=Guest, subject=Subject("guest", by=by))

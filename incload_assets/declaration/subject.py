"""The person that a row of a table is about."""

from dataclasses import dataclass

import pyspark.sql.types as T

from incload_assets.contract.contract import Contract
from incload_assets.contract.protection import Dropped, Encrypted, Masked
from incload_assets.platform.errors import DeclarationError

_IDENTIFYING = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType)


@dataclass(frozen=True)
class Subject:
    """The data subject of a table's rows, so that the rows of one person can be erased.

    Args:
        kind: The kind of person, one word for all tables, for example ``customer``.
        by: The column of the contract with the person's identifier.

    Example:
        >>> Subject("customer", by="customer_id")
        Subject(kind='customer', by='customer_id')
    """

    kind: str
    by: str


def check_subject(table_name: str, contract: Contract, subject: Subject, partition_by: str | None) -> None:
    """Refuses a subject that no row could be found by, or that could not be erased.

    Args:
        table_name: Name of the table for messages.
        contract: The contract.
        subject: The subject.
        partition_by: The column that partitions the table.

    Raises:
        DeclarationError: Naming the table, the field, the value, the rule and what to write instead.
    """
    if not (subject.kind.isidentifier() and subject.kind.islower()):
        raise DeclarationError(
            f"{table_name}: subject.kind is {subject.kind!r}",
            rule="a kind of person is one word in lower case, as people type it",
            remedy='name it, for example Subject("customer", by="customer_id")',
        )
    if subject.by not in contract.types:
        raise DeclarationError(
            f"{table_name}: subject.by is {subject.by!r}, which {contract.model_name} does not have",
            rule="the rows of a person are found by a column of the contract",
            remedy=f"name one of {', '.join(contract.types)}",
        )
    if not isinstance(contract.types[subject.by], _IDENTIFYING):
        raise DeclarationError(
            f"{table_name}: subject.by is {subject.by!r} of type {contract.types[subject.by].simpleString()}",
            rule="a person is identified by a text or a whole number, which has one spelling",
            remedy="name another column, or declare it as a string",
        )
    if isinstance(protection := contract.protections.get(subject.by), Masked | Dropped | Encrypted):
        raise DeclarationError(
            f"{table_name}: subject.by is {subject.by!r}, which is {protection!r}",
            rule="a person is identified by a value that distinguishes people",
            remedy='protect it as Hashed(key="…") instead, or name another column',
        )
    if subject.by == partition_by:
        raise DeclarationError(
            f"{table_name}: subject.by is {subject.by!r}, and so is write.partition_by",
            rule="values that partition a table are in names of folders and in Delta's commits, which outlive rows",
            remedy="spread the rows by hash instead: write=Merge(buckets=…), or partition by another column",
        )


def refuse_encrypted(table_name: str, contract: Contract) -> None:
    """Refuses encrypted columns of a table that does not say whose its rows are.

    Raises:
        DeclarationError: Naming the table, the field, the rule and what to write instead.
    """
    for name, protection in contract.protections.items():
        if isinstance(protection, Encrypted):
            raise DeclarationError(
                f"{table_name}: {name!r} is {protection}, and the table has no subject",
                rule="a value is encrypted under a key of the person whose row it is",
                remedy='say whose rows these are: subject=Subject("customer", by="customer_id"), or write Tokenized',
            )

"""Columns with personal values, by their names and by the form of their values."""

import re
from collections.abc import Iterable

import pyspark.sql.types as T

from incload_assets.inference.evidence import Column

_ALWAYS = {
    "mail", "email", "phone", "mobile", "telephone", "tel", "fax", "birth", "birthday", "birthdate", "dob", "ssn",
    "passport", "address", "street", "iban", "ip", "surname", "lastname", "firstname", "forename", "fullname", "gender",
}  # fmt: skip
_OF_PERSONS = {
    "first", "last", "full", "middle", "given", "family", "customer", "user", "payer", "contact", "person", "employee",
    "patient", "owner", "passenger", "driver", "member", "guest", "author", "card", "holder", "cardholder", "recipient",
}  # fmt: skip
_NAMES = {"name", "names"}
_HALF = 0.5


def words(name: str) -> set[str]:
    """The words in a name: ``customerMail`` and ``Customer E-Mail`` have the word ``mail``."""
    return set(re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()))


def why_personal(column: Column, table: str, members: Iterable[str] = ()) -> str:
    """The reason why a column holds personal values; empty if nothing suggests it."""
    for name in (column.name, *members):
        found = words(name)
        if said := (found & _ALWAYS) or _is_name(found, table):
            about = f"its member {name!r}" if name != column.name else "its name"
            return f"personal by {about} ({', '.join(sorted(said))})"
    for number, form in (
        (column.emails, "e-mail addresses"),
        (column.phones, "telephone numbers"),
        (column.ips, "IP addresses"),
    ):
        if column.filled and number > _HALF * column.filled:
            return f"personal by its values: {number:,} of {column.filled:,} are {form}"
    return ""


def may_be_personal(column: Column) -> bool:
    """True if a column of text is called a name and nothing says whose, or is called like a person."""
    found = words(column.name)
    return isinstance(column.native, T.StringType) and (bool(found & _NAMES) or found <= _OF_PERSONS - {"card"})


def _is_name(found: set[str], table: str) -> set[str]:
    if not found & _NAMES:
        return set()
    of_table = {word.removesuffix("s") for word in words(table)} | {
        "person" for word in words(table) if "people" in word
    }
    if found <= _NAMES and of_table & _OF_PERSONS:
        return found
    return found & (_NAMES | _OF_PERSONS) if found & _OF_PERSONS else set()

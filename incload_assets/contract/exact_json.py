"""JSON texts as variants, with every digit of their numbers.

``from_json`` and ``get_json_object`` take numbers through a double (1.10000000000000000000001 becomes 1.1), and stop
silently after the first value of a text. A variant keeps up to 38 digits and refuses names that occur twice; but a
number with an exponent, or with more digits, is a double there, too, and -0 loses its sign. Such numbers are therefore
made strings with a mark before the text is parsed, and numbers again when it is a text again.

To look for such numbers costs 400,000 records of five members 0.3 s on two cores; ``schema_of_variant``, which tells of
doubles in what was parsed, 0.5 s.
"""

import secrets

from pyspark.sql import Column
from pyspark.sql import functions as F

_SECRET = secrets.token_hex(8)
END = f"\ufdd0{_SECRET}"
"""Follows the value, in an array of the two, so that whatever else is in the text shows. No text can hold it."""
_MARK = f"\ufdd1{_SECRET}"

_STRING = r'"(?:[^"\\]++|\\.)*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_MAY_BE_LOST = r"[:,\[\s]-?+[0-9.]++(?:[eE]|(?<=[0-9.]{38}|[:,\[\s]-0|-0\.0{1,38}))"
_LOST = r"(?=[-0-9.]*+[eE]|[-0-9.]{39}|-0(?:\.0*+)?(?![0-9.]))"
# a number in the place of a name must stay what is no JSON
_ENDED = r"(?![-+.\w])(?!\s*+:)"
_OTHERS = rf'(?:[^"0-9-]++|{_STRING}|(?!{_LOST}){_NUMBER}{_ENDED})*+'
_NUMBERS = rf"\G({_OTHERS})({_LOST}{_NUMBER}){_ENDED}"
_FIRST_HALF, _SECOND_HALF = r"\\u[dD][89abAB]..", r"\\u[dD][c-fC-F]"
_HALF = rf"(?<!\\)(?:\\\\)*+(?:{_FIRST_HALF}(?!{_SECOND_HALF})|(?<!{_FIRST_HALF}){_SECOND_HALF})"
_MARKED_NUMBER = f"{_MARK}({_NUMBER})"


def loses_digits(text: Column) -> Column:
    """Whether there may be a number in the text that a variant does not hold as it is."""
    return text.rlike(_MAY_BE_LOST)


def marked(text: Column, where: Column) -> Column:
    """The text with those numbers as strings that begin with a mark, where it :func:`loses_digits`."""
    return F.when(where, F.regexp_replace(text, _NUMBERS, rf'$1"{_MARK}$2"')).otherwise(text)


def all_marked(text: Column) -> Column:
    """The text with all numbers so, which then keep their spelling, too."""
    return F.regexp_replace(text, rf'\G((?:[^"0-9-]++|{_STRING})*+)({_NUMBER}){_ENDED}', rf'$1"{_MARK}$2"')


def parsed(text: Column, marked: Column | None = None) -> Column:
    """The variant of the array of a JSON value and ``END``; NULL of no JSON, no UTF-8, or where a name is repeated.

    Args:
        text: As it is.
        marked: The same, with marks, where digits matter; marks hide what is no UTF-8.
    """
    whole = F.concat(F.lit("["), text if marked is None else marked, F.lit(f',"{END}"]'))
    return F.when(F.is_valid_utf8(text), F.try_parse_json(whole))


def why_refused(text: Column) -> Column:
    """Why :func:`parsed` is NULL of a text in UTF-8, in words."""
    whole = F.concat(F.lit("["), text, F.lit(f',"{END}"]'))
    values = F.from_json(whole, "array<string>", {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"})
    names = F.json_object_keys(text)
    again = F.try_element_at(F.filter(names, lambda name, at: F.array_position(names, name) <= at), F.lit(1))
    within = F.lit("a name occurs twice in an object within the record")
    return (
        F.when(values.isNull() | (F.try_element_at(values, F.lit(-1)) != END), "not valid JSON")
        .when(text.rlike(_HALF), "a character in it is half of one (a surrogate without the other)")
        .otherwise(F.coalesce(F.concat(F.lit("the name '"), again, F.lit("' occurs twice in an object")), within))
    )


def is_single(json: Column) -> Column:
    """Whether what :func:`parsed` made is of a text with one value."""
    return F.try_variant_get(json, "$[1]", "string").eqNullSafe(END)


def is_marked(value: Column) -> Column:
    """Whether a string that was taken out of the variant of a marked text is such a number."""
    return value.startswith(_MARK)


def plain_number(value: Column) -> Column:
    """A string that was taken out of the variant of a marked text, if it holds no JSON: the number."""
    return F.replace(value, F.lit(_MARK), F.lit(""))


def unmarked(value: Column) -> Column:
    """Likewise, if it may hold JSON: the number, or the JSON with the numbers in it."""
    whole = F.regexp_replace(value, f"^{_MARKED_NUMBER}$", "$1")
    within = F.regexp_replace(whole, f'"{_MARKED_NUMBER}"', "$1")
    return F.when(value.contains(_MARK), within).otherwise(value)


def unmarked_members(record: Column, type_sql: str) -> Column:
    """Likewise of a struct of strings, of that type, all at once: hundreds of expressions would be too many."""
    text = F.regexp_replace(F.to_json(record), rf'(?:\\")?+{_MARKED_NUMBER}(?:\\")?+', "$1")
    return F.try_variant_get(F.try_parse_json(text), "$", type_sql)

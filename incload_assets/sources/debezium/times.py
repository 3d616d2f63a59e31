"""Conversion of Debezium's dates and times, numbers or ISO 8601, to text that the contract's types read.

Values that Spark's types lack (``infinity``, ``24:00:00``, years before Christ or after 9999) become text in
PostgreSQL's format: a string column keeps it, every other type refuses it.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.platform.sql import let

_DAY = 86_400_000_000
_DAYS = (-2_440_588, 2_145_031_948)
"""Range of PostgreSQL's dates in days since 1970, from 4714 BC to 5874897."""
_MICROS = (_DAYS[0] * _DAY, 9_223_372_036_854_775_807)
_LONGEST = 3_600 * 839 * 1_000_000 - 1
"""MySQL's longest time, and with another sign its shortest, in microseconds: it has hours up to 838."""
_COMMON = (-719_162 * _DAY, 2_932_897 * _DAY - 1)
"""Range of the years 1 to 9999 in microseconds since 1970."""
_INFINITE_DAYS = ((-2_147_472_692, -622_191_234), (-2_147_472_691, -625_821_272))
"""The JDBC driver's infinity and -infinity as days, which overflow; each in streamed events and in a snapshot."""
_INFINITE_MICROS = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
_INFINITE_NANOS = (9_223_372_036_854_775_807, -9_223_372_036_854_775_808)
_INFINITE_ISO = (
    ("-5877611-06-21Z", "+292278994-08-16Z", "+294247-01-10T04:00:25.2Z"),
    ("-5877611-06-22Z", "+292269055-12-02Z", "-290308-12-21T19:59:27.6Z"),
)
_ISO = r"^([+-]?\d{4,}-\d\d-\d\d)?(T?\d\d:\d\d:\d\d(\.\d{1,6})?)?Z$"


def time_text(number: Column, encoding: Column, *, durations: bool = False) -> Column:
    """The text of a bigint by ``encoding`` (``date``, ``time[us]``, …); NULL if invalid or finer than a microsecond.

    With ``durations`` a time may be negative or longer than a day: ``-838:59:59.000000``.
    """
    days = F.date_from_unix_date(number.try_cast("int")).cast("string")
    date = _infinite(number, *_INFINITE_DAYS).when(number.between(*_DAYS), _of_era(days))
    moment = let(_micros(number, encoding), lambda micros: _moment(micros, encoding.startswith("timestamp"), durations))
    nanos = encoding == "timestamp[ns]"
    return F.when(encoding == "date", date).otherwise(
        F.when(nanos & (number == _INFINITE_NANOS[0]), "infinity")
        .when(nanos & (number == _INFINITE_NANOS[1]), "-infinity")
        .otherwise(moment)
    )


def iso_text(value: Column) -> Column:
    """A date, time or timestamp in ISO 8601 and UTC, in the format of :func:`time_text`; other text unchanged."""
    text = F.regexp_replace(value, "Z$", "")
    given = F.when(text.contains("."), F.length(F.substring_index(text, ".", -1))).otherwise(-1)
    missing = F.substring(F.lit(".000000"), given + 2, F.lit(7))
    padded = F.when(text.contains(":"), F.concat(text, missing)).otherwise(text)
    return _infinite(value, *_INFINITE_ISO).when(value.rlike(_ISO), _of_era(padded)).otherwise(value)


def _infinite(value: Column, positive: tuple[object, ...], negative: tuple[object, ...]) -> Column:
    return F.when(value.isin(*positive), "infinity").when(value.isin(*negative), "-infinity")


def _micros(number: Column, encoding: Column) -> Column:
    whole = F.when(F.pmod(number, F.lit(1000)) == 0, F.call_function("div", number, F.lit(1000)))
    return (
        F.when(encoding.endswith("[ns]"), whole)
        .when(encoding.endswith("[ms]"), F.try_multiply(number, F.lit(1000)))
        .otherwise(number)
    )


def _moment(micros: Column, is_timestamp: Column, durations: bool) -> Column:
    at, day = F.timestamp_micros(micros), F.lit(_DAY)
    timestamp = F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    of_day = F.when((micros >= 0) & (micros < day), F.date_format(at, "HH:mm:ss.SSSSSS"))
    of_day = of_day.when(micros == day, "24:00:00")
    return F.when(
        is_timestamp,
        F.when(micros.between(*_COMMON), timestamp)
        .when(micros == _INFINITE_MICROS[0], "infinity")
        .when(micros == _INFINITE_MICROS[1], "-infinity")
        .when(micros.between(*_MICROS), _of_era(timestamp)),
    ).otherwise(of_day.when(micros.between(-_LONGEST, _LONGEST), _duration(micros)) if durations else of_day)


def _duration(micros: Column) -> Column:
    hours = F.call_function("div", F.abs(micros), F.lit(3_600_000_000)).cast("string")
    padded = F.lpad(hours, F.greatest(F.length(hours), F.lit(2)), F.lit("0"))
    rest = F.date_format(F.timestamp_micros(F.abs(micros)), ":mm:ss.SSSSSS")
    return F.concat(F.when(micros < 0, "-").otherwise(""), padded, rest)


def _of_era(text: Column) -> Column:
    """A date or timestamp with a signed astronomical year (0 is 1 BC), converted to PostgreSQL's format."""
    year = F.regexp_extract(text, r"^([+-]?\d+)-", 1).try_cast("int")
    rest = F.regexp_extract(text, r"^[+-]?\d+(-.*)$", 1)
    before = F.concat(F.lpad((1 - year).cast("string"), 4, "0"), rest, F.lit(" BC"))
    return F.when(text.rlike("^(-|0000-)"), before).otherwise(F.regexp_replace(text, r"^\+", ""))

"""Path templates."""

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incload_assets.declaration.window import window_of
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.template import Template
from tests.support.files import day


def parsed(path: str, root: str = "/landing") -> Template:
    return Template.parse("orders", path, root)


def test_time_fields_are_the_start_of_the_window() -> None:
    template = parsed("{landing}/{window:%Y}/{window:%m}/orders-{window:%Y%m%dT%H}.json")
    assert template.prefix_of(day(3)) == "/landing/2026/01/orders-20260103T00.json"
    assert template.match("/landing/2026/01/orders-20260103T00.json") == template.times_of(day(3))


@pytest.mark.parametrize(
    ("path", "name", "matches"),
    [
        ("{landing}/*.json", "a.json", True),
        ("{landing}/*.json", "sub/a.json", False),
        ("{landing}/*.json", ".a.json", False),
        ("{landing}/*.json", "_a.json", False),
        ("{landing}/_raw/?.json", "_raw/a.json", True),
        ("{landing}/?.json", "ab.json", False),
        ("{landing}/?.json", "_.json", False),
        ("{landing}/**/a.json", "a.json", True),
        ("{landing}/**/a.json", "x/y/a.json", True),
        ("{landing}/**/a.json", "x/_temporary/a.json", False),
        ("{landing}/x/**", "x/y/z.csv", True),
        ("{landing}/x/**", "x/y/.z.csv", False),
        ("{landing}/a[1].json", "a[1].json", True),
        ("{landing}/a[1].json", "a1.json", False),
        ("{landing}/a.json", "aXjson", False),
        ("{landing}//a//*.json", "a/b.json", True),
        ("{landing}/{window:%Y/%m}/*.json", "2026/01/line\nbreak.json", True),
        ("{landing}/{window:%Y/%m/}*.json", "2026/01/a.json", True),
        ("{landing}/{window:%Y/%m/}*.json", "2026/01/_a.json", False),
        ("{landing}/{window:%Y/%m/}/*.json", "2026/01/a.json", True),
        ("{landing}/*/*.json", "/a.json", False),
        ("{landing}/*/_in/*.json", "x/_in/a.json", True),
    ],
)
def test_what_a_template_matches(path: str, name: str, matches: bool) -> None:
    assert (parsed(path).match(f"/landing/{name}") is not None) is matches


def test_a_landing_root_is_taken_literally() -> None:
    template = parsed("{landing}/*.json", "/data/[x]*/{y}")
    assert template.match("/data/[x]*/{y}/a.json") == ()
    assert template.match("/data/x1/{y}/a.json") is None


def test_the_leftmost_possible_time_counts() -> None:
    assert parsed("{landing}/*{window:%Y%m%d}*.json").match("/landing/x-20260102-20260103.json") == ("20260102",)


TIMES = st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%Y%m%dT%H%M%S", "%y%j", "%G-W%V-%u", "%d.%m.%Y"])
BETWEEN = st.sampled_from(["/", "-", "/*/", "/**/", "x?"])


@given(times=st.lists(st.tuples(BETWEEN, TIMES), min_size=1, max_size=3), number=st.integers(1, 20_000))
def test_the_path_of_a_window_is_recognised_as_this_window(times: list[tuple[str, str]], number: int) -> None:
    template = parsed("{landing}" + "".join(f"/a{glob}{{window:{fmt}}}" for glob, fmt in times) + "/*.csv")
    window = day(number)
    path = "/landing" + "".join(
        f"/a{glob.replace('**', 'some/folder').replace('*', 'x').replace('?', 'y')}{window.start.strftime(fmt)}"
        for glob, fmt in times
    )
    assert template.match(f"{path}/1.csv") == template.times_of(window)
    assert path.startswith(template.prefix_of(window).rstrip("/"))


def test_a_field_may_be_in_utc_beside_one_in_the_zone_of_the_partitions() -> None:
    template = parsed("{landing}/{window:%Y-%m-%d}/{window_utc:%d%H}-*.json")
    window = window_of(dg.DailyPartitionsDefinition("2026-01-01", timezone="Asia/Kolkata"), "2026-03-01")
    assert template.times_of(window) == ("2026-03-01", "2818")
    assert template.prefix_of(window) == "/landing/2026-03-01/2818-"
    assert template.depth_below("/landing") == 1


def test_keys_are_relative_to_the_landing_root() -> None:
    template = parsed("{landing}/orders/*.json", "s3a://bucket/in/")
    assert template.path_of("orders/a.json") == "s3://bucket/in/orders/a.json"
    assert template.name_of("s3://bucket/in/orders/a.json") == "orders/a.json"


def test_keys_elsewhere_are_full_paths() -> None:
    assert parsed("s3a://bucket/in/*.json").name_of("s3://bucket/in/a.json") == "s3://bucket/in/a.json"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("orders/*.json", "write '{landing}/orders/*.json'"),
        ("hdfs://bucket/a.json", "does not begin with a root"),
        ("{landing}/{window}/a.json", "names no part of the time"),
        ("{landing}/{window:}/a.json", "names no part of the time"),
        ("{landing}/{window:%Q}/a.json", "the directive '%Q'"),
        ("{landing}/{window:%b}/a.json", "the directive '%b'"),
        ("{landing}/{window:%}/a.json", "the directive '%'"),
        ("{landing}/{day:%Y}/a.json", "unknown placeholder {day:%Y}"),
        ("{landing}/{window_utc}/a.json", "names no part of the time"),
        ("/x/{landing}/a.json", "{landing} inside"),
        ("{landing}/{a.json", "lone brace"),
        ("{landing}/a**/b.json", "** inside a name"),
        ("{landing}/../b.json", "'.' or '..'"),
        ("{landing}/*.xlsx", "unknown extension"),
        ("{landing}/*.parquet.gz", "unknown extension"),
        ("{landing}/*.orc.zst", "unknown extension"),
        ("{landing}/orders", "unknown extension"),
        ("{landing}/u/_{window:%Y-%m-%d}.csv", "begins with '_'. Rule: Spark treats such files as hidden"),
        ("{landing}/u/.{window:%Y-%m-%d}.csv", "rename them, for example '{window:%Y-%m-%d}.csv'"),
        ("{landing}/u/{window:_%Y-%m-%d}.csv", "begins with '_'"),
        ("{landing}/u/{window:%Y/_%m-%d}.csv", "for example '{window:%m-%d}.csv'"),
        ("{landing}/u/{window:%Y-%m-%d/}_orders.csv", "for example 'orders.csv'"),
        ("{landing}/u/{window:%Y-%m-%d}/.orders-*.csv.gz", "for example 'orders-*.csv.gz'"),
        ("{landing}/_metadata-{window:%Y-%m-%d}.csv", "begins with '_'"),
        ("{landing}/{window:%Y-%m-%d}/.json", "for example 'json'"),
        ("{landing}/{window:%Y-%m-%d}.csv.tmp", "ends in the name of a file that is still being written"),
        ("{landing}/{window:%Y-%m-%d}/*.csv._COPYING_", "still being written"),
        ("{landing}/{window:%Y/.}/a.json", "'.' or '..'"),
    ],
)
def test_a_wrong_path_is_refused_with_what_to_write(path: str, says: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        Files(path).validate("orders")
    assert str(refused.value).startswith("orders: source: path")
    assert says in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"format": "xml"},
            "format is 'xml'. Rule: it is 'json' or 'csv' or 'parquet' or 'orc' or 'avro', or None. Remedy: correct",
        ),
        (
            {"absent": "fail"},
            "absent is 'fail'. Rule: it is 'wait' or 'empty'. Remedy: correct absent, or leave it out",
        ),
        (
            {"deleted": "drop"},
            "deleted is 'drop'. Rule: it is 'keep' or 'retract'. Remedy: correct deleted, or leave it out",
        ),
        ({"encoding": "cp1252"}, "encoding is 'cp1252'"),
        ({"delimiter": "||"}, "delimiter is '||'"),
        ({"delimiter": '"'}, "delimiter is '\"'"),
        ({"delimiter": "\ufffd"}, "delimiter is '\ufffd'"),
        ({"delimiter": "\ud800"}, r"delimiter is '\ud800', which is not a character of utf-8"),
        (
            {"delimiter": "\u20ac", "encoding": "iso-8859-1"},
            "delimiter is '\u20ac', which is not a character of iso-8859-1",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        Files("{landing}/*.json", **wrong).validate("orders")  # type: ignore[arg-type]
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        Files("{landing}/orders/{window:%Y-%m-%d}/*.json"),
        Files("{landing}/**/{window:%Y}-{window:%j}.csv.zst", delimiter=";", encoding="iso-8859-1"),
        Files("s3://bucket/{window:%G-W%V}/part-*", format="parquet"),
        Files("/data/in/**"),
        Files("{landing}/_in/.hidden/{window:_%Y/%m-%d}.csv"),
        Files("{landing}/_day={window:%Y-%m-%d}.csv"),
    ],
)
def test_a_right_declaration_is_accepted(source: Files) -> None:
    source.validate("orders")

"""Loads of protected tables, against the same load of a table that keeps everything in clear."""

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.contract.protection import Encrypted, Hashed, Protection, Tokenized
from incload_assets.declaration.subject import Subject
from incload_assets.sources.files.files import Files
from incload_assets.writes.merge import Merge
from tests.benchmarks.bench import Bench
from tests.benchmarks.items import FIRST_WINDOW, WINDOWS
from tests.benchmarks.pairs import Comparison
from tests.support.tables import DatedItem, Loaded, make

PROTECTIONS: dict[str, Protection] = {
    "hashed": Hashed(key="crm"),
    "tokenized": Tokenized(key="crm"),
    "encrypted": Encrypted(key="crm"),
}
PER_PERSON = 10
"""Rows of each person."""


class Clear(DatedItem):
    """A row of a person, in clear."""

    person: T.StringType = pa.Field(nullable=False)
    email: T.StringType = pa.Field(nullable=False)
    city: T.StringType = pa.Field(nullable=False)


def _protected(protection: Protection) -> type[Clear]:
    """The same with two protected columns."""

    class Protected(Clear):
        email: T.StringType = pa.Field(nullable=False, metadata={"personal": protection})
        city: T.StringType = pa.Field(nullable=False, metadata={"personal": protection})

    return Protected


def protect(bench: Bench) -> Iterator[Comparison]:
    """Windows of new rows; where they are encrypted, a tenth of the persons of each window are new."""
    rows = bench.sizes.big // 10
    with pytest.MonkeyPatch.context() as keys:
        keys.setenv("INCLOAD_KEY_CRM", "made up for this benchmark, 32 long")
        keys.setenv("INCLOAD_KEY_ERASURE", "made up for this benchmark, 32 long")
        for name, protection in PROTECTIONS.items():
            landing = bench.new("landing")
            clear, protected = (_table(bench, landing, each) for each in (Clear, _protected(protection)))

            yield bench.compare(
                f"load of {rows:,} rows, two columns {name} / in clear",
                partial(_load, protected, rows),
                partial(_load, clear, rows),
                prepare=partial(_write, landing, rows),
                bound=None,
                sizes={"rows": rows, "persons": rows // PER_PERSON},
            )


def rotate(bench: Bench) -> Iterator[Comparison]:
    """All windows of a table loaded again under a new key, against their first loads."""
    rows, windows = bench.sizes.big // 100, 5
    with pytest.MonkeyPatch.context() as keys:
        keys.setenv("INCLOAD_KEY_ERASURE", "made up for this benchmark, 32 long")
        landing = bench.new("landing")
        for number in range(windows):
            _write(landing, rows, number)

        def load(table: Loaded, key: str) -> None:
            keys.setenv("INCLOAD_KEY_CRM", f"{key} made up for this benchmark, 32 long")
            for number in range(windows):
                _load(table, rows, number)

        contract = _protected(Hashed(key="crm"))
        tables = [_table(bench, landing, contract)]

        def prepare(_: int) -> None:
            load(tables[-1], "old")
            tables.append(_table(bench, landing, contract))

        found = bench.compare(
            f"key of {windows} windows of {rows:,} rows rotated: all loaded again / their first loads",
            lambda _: load(tables[-2], "new"),
            lambda _: load(tables[-1], "new"),
            prepare=prepare,
            sizes={"windows": windows, "rows": rows},
            warm_up=1,
        )
        old, new = (table.rows("id", "email") for table in tables[-2:])
        assert old == new and len(new) == windows * rows, "tokens of the old key are left"
        yield found


def _table(bench: Bench, landing: Path, contract: type[Clear]) -> Loaded:
    return make(
        bench.session(),
        bench.new("lake"),
        source=Files(f"{landing}/{{window:%Y-%m-%d}}.json"),
        contract=contract,
        write=Merge(partition_by="day"),
        partitions_def=WINDOWS,
        subject=Subject("person", by="person"),
    )


def _load(table: Loaded, rows: int, number: int) -> None:
    assert table.load(f"{FIRST_WINDOW + timedelta(days=number)}").evidence.applied == rows


def _write(landing: Path, rows: int, number: int) -> None:
    """The rows of a window, whose persons are mostly those of the window before."""
    landing.mkdir(exist_ok=True)
    day, persons = FIRST_WINDOW + timedelta(days=number), rows // PER_PERSON
    with (landing / f"{day}.json").open("w") as out:
        for row in range(rows):
            person = f"person-{number * persons // 10 + row % persons}"
            place = {"person": person, "email": f"{person}@example.org", "city": f"city {row % 100}"}
            out.write(json.dumps({"id": f"{number}-{row}", "value": "v", "seq": 1, "day": f"{day}", **place}) + "\n")

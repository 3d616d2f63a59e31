"""Mistakes in YAML: each is named with its file, its line, its key and what is allowed."""

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from dagster_shared.yaml_utils import safe_load_yaml

from incload_assets.platform.errors import DeclarationError
from tests.component.files import PAYMENTS, loaded, reported, written

MANY = """\
type: incload_assets.IncrementalTable

attributes:
  defaults:
    partitions_def: {type: daily, start_date: "2026-01-01"}
    source: {type: query_by_time, database: shop, modified: updated_at}
    contract:
      columns:
        id: bigint
        updated_at: timestamp
    changes: {keys: [id], sequence_by: [updated_at]}
  tables:
    orders:
      source: {table: public.orders}
    customers:
      source: {table: public.customers}
"""
"""Tables of one database."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in a file.

    Args:
        old: What is replaced.
        new: What it is replaced by; the wrong line ends with ``# here``.
        says: A regular expression of the error.
        seen: Whether ``dg check yaml`` finds it, which knows no other line than the schema's.
    """

    old: str
    new: str
    says: str
    seen: bool = False
    text: str = PAYMENTS


NO_SOURCE = '  source:\n    type: files\n    path: "{landing}/payments/{window:%Y-%m-%d}.csv"\n'
MISTAKES = {
    "unknown attribute": Mistake(
        "  write:\n", "  writes: # here\n", r"writes is unknown\. Rule: the keys here are partitions_def, source, .*"
        r"Remedy: write 'write'", seen=True,
    ),
    "unknown kind of source": Mistake(
        "type: files", "type: file # here",
        r"source\.type is 'file'\. Rule: type is one of debezium, files, kafka, .*write 'files'", seen=True,
    ),
    "source without a kind": Mistake(
        "  source:\n    type: files\n", "  source: # here\n",
        r"source lacks 'type'\. Rule: type is one of debezium, files", seen=True,
    ),
    "unknown argument of a source": Mistake(
        "    path:", "    folder: x # here\n    path:",
        r"source\.folder is unknown\. Rule: the keys here are path, format, absent, deleted, delimiter, encoding",
        seen=True,
    ),
    "source without its path": Mistake(
        "  source:\n    type: files\n    path: \"{landing}/payments/{window:%Y-%m-%d}.csv\"\n",
        "  source: # here\n    type: files\n", r"source lacks 'path'\. Rule: path: The template", seen=True,
    ),
    "source that is text": Mistake(
        NO_SOURCE, "  source: files # here\n", r"source lacks 'path'", seen=True,
    ),
    "no source": Mistake(
        f"  name: payments\n  partitions_def: {{type: daily, start_date: \"2026-01-01\"}}\n{NO_SOURCE}",
        "  name: payments\n  partitions_def: {type: daily, start_date: \"2026-01-01\"}\n",
        r"attributes lacks 'source'\. Rule: source: The source of changes", seen=True,
    ),
    "path without a window": Mistake(
        "{window:%Y-%m-%d}.csv\"", "{windo:%Y-%m-%d}.csv\" # here", r"source: path .*windo",
    ),
    "braces of a template in a path": Mistake(
        "\"{landing}/payments/{window:%Y-%m-%d}.csv\"", "\"{{landing}}/payments/{window:%Y-%m-%d}.csv\" # here",
        r"source\.path is .*cannot be filled in\. Rule: .*there is no 'landing'; there are .*datetime, dg, env, name",
    ),
    "unknown key of a column": Mistake(
        "        checks:", "        nulable: true # here\n        checks:",
        r"contract\.columns\.amount\.nulable is unknown\. Rule: the keys here are type, nullable, checks, personal, "
        r"description\. Remedy: write 'nullable'", seen=True,
    ),
    "unknown type of a column": Mistake(
        "day: date", "day: day # here", r"contract\.columns\.day is 'day'\. Rule: types are string, .*bigint",
    ),
    "unknown type of a column with more": Mistake(
        "        type: decimal(12,2)", "        type: decimal # here",
        r"contract\.columns\.amount\.type is 'decimal'\. Rule: types are .*decimal\(12,2\)",
    ),
    "unknown check": Mistake(
        "          ge: 0", "          least: 0 # here",
        r"checks\.least is unknown\. Rule: the keys here are eq, ne, gt, ge", seen=True,
    ),
    "check of a wrong value": Mistake(
        "      amount:\n        type: decimal(12,2)\n        checks:\n          ge: 0",
        "      amount: # here\n        type: decimal(12,2)\n        checks:\n          ge: zero",
        r"field amount: check .*'zero' is not a value of decimal",
    ),
    "check without its value": Mistake(
        "      amount:\n        type: decimal(12,2)\n        checks:\n          ge: 0",
        "      amount: # here\n        type: decimal(12,2)\n        checks:\n          ge: {}",
        r"field amount: a check is refused: .*min_value",
    ),
    "former partitions that are none": Mistake(
        "  write:\n", "  former_partitions: daily # here\n  write:\n",
        r"former_partitions is 'daily'\. Rule: it is a mapping with the keys partitions_def, until, source, read_older",
    ),
    "unknown protection": Mistake(
        "personal: true}", "personal: {type: hash, key: crm}} # here",
        r"personal\.type is 'hash'\. Rule: type is one of hashed, tokenized, encrypted, masked, dropped, in_clear",
        seen=True,
    ),
    "name of a key that is no name": Mistake(
        "personal: true}", "personal: {type: hashed, key: C R M}} # here", r"a key's name is letters, digits and _",
    ),
    "column whose name is true": Mistake(
        "day: date", "on: date # here", r"has the name True\. Rule: names are text\. Remedy: write it in quotes",
    ),
    "unique column that there is not": Mistake(
        "    columns:\n", "    unique: [number] # here\n    columns:\n", r"Config\.unique names 'number'",
    ),
    "key that is no column": Mistake(
        "keys: [payment_id]", "keys: [id] # here", r"changes\.keys names 'id', which Payments does not have",
    ),
    "no sequence": Mistake(
        "  changes:\n    keys: [payment_id]\n    sequence_by: [updated_at]\n",
        "  changes: # here\n    keys: [payment_id]\n", r"changes\.sequence_by is empty",
    ),
    "condition that is no SQL": Mistake(
        "keys: [payment_id]", "keys: [payment_id]\n    delete_when: \"op = \" # here", r"changes\.delete_when is",
    ),
    "unknown write strategy": Mistake(
        "type: merge", "type: mrege # here",
        r"write\.type is 'mrege'\. Rule: type is one of append, delete_insert, .*write 'merge'", seen=True,
    ),
    "write strategy without what it needs": Mistake(
        "  write:\n    type: merge\n    partition_by: day\n", "  write: delete_insert # here\n", r"write lacks 'by'",
        seen=True,
    ),
    "argument of another write strategy": Mistake(
        "    partition_by: day", "    sums: [amount] # here", r"write\.sums is unknown\. Rule: the keys here are "
        r"partition_by, buckets, change_feed, soft_delete", seen=True,
    ),
    "partition that is no column": Mistake(
        "partition_by: day", "partition_by: month # here", r"write\.partition_by names 'month'",
    ),
    "length of time in other words": Mistake(
        "  write:\n", "  interval: fast # here\n  write:\n", r"interval is 'fast'\. Rule: .*30s, 15min, 2h, 3d or 1w",
        seen=True,
    ),
    "share as a percentage": Mistake(
        "  write:\n", "  quarantine: {max_share: 20} # here\n  write:\n",
        r"quarantine\.max_share is 20\. Rule: it is a share from 0 to 1",
    ),
    "unknown criticality": Mistake(
        "  write:\n", "  criticality: urgent # here\n  write:\n",
        r"criticality is 'urgent'\. Rule: it is 'high' or 'normal' or 'low'", seen=True,
    ),
    "template of something secret": Mistake(
        "  write:\n", "  criticality: \"{{ 'sec' + 'ret' }}\" # here\n  write:\n",
        r"^(?!.*secret).*criticality is \"\{\{ 'sec' \+ 'ret' \}\}\"\. Rule: it is 'high' or 'normal' or 'low'",
    ),
    "number as text": Mistake(
        "  write:\n", "  max_partitions_per_run: many # here\n  write:\n",
        r"max_partitions_per_run is 'many'\. Rule: it is a whole number, 1 or more", seen=True,
    ),
    "version that is a number": Mistake(
        "  write:\n", "  code_version: 2 # here\n  write:\n", r"code_version is 2\. Rule: it is a string", seen=True,
    ),
    "unknown kind of partitions": Mistake(
        "{type: daily, start_date: \"2026-01-01\"}", "{type: dayly, start_date: \"2026-01-01\"} # here",
        r"partitions_def\.type is 'dayly'\. Rule: type is one of daily, hourly, monthly, time_window", seen=True,
    ),
    "start that is no day": Mistake(
        "start_date: \"2026-01-01\"}", "start_date: January} # here", r"partitions_def is refused: .*January",
    ),
    "contract in no module": Mistake(
        PAYMENTS[PAYMENTS.index("  contract:\n") : PAYMENTS.index("  changes:\n")],
        "  contract: my_lake.Payment # here\n", r"contract is 'my_lake\.Payment': ModuleNotFoundError: No module named",
    ),
    "function that there is not": Mistake(
        "  write:\n", "  function: tests.component.files.lowered # here\n  write:\n",
        r"function is .*tests\.component\.files has no 'lowered'.*Remedy: write 'loaded'",
    ),
    "key twice": Mistake(
        "    partition_by: day", "    partition_by: day\n    partition_by: updated_at # here",
        r"'partition_by' is given a second time, as in line 24",
    ),
    "name that names no folder": Mistake(
        "name: payments", "name: my-payments # here", r"its asset key has the part 'my-payments'",
    ),
    "owner that is none": Mistake(
        "  write:\n", "  owners: [nobody]\n  write:\n", r"Dagster refuses its declaration: .*nobody",
    ),
    "subject that is no column": Mistake(
        "  write:\n", "  subject: {kind: customer, by: customer} # here\n  write:\n",
        r"subject\.by is 'customer', which Payments does not have",
    ),
    "attribute beside tables": Mistake(
        "  tables:\n", "  criticality: high # here\n  tables:\n",
        r"criticality is unknown\. Rule: the keys here are defaults, tables", seen=True, text=MANY,
    ),
    "defaults without tables": Mistake(
        MANY[MANY.index("  tables:\n") :], "  tables: # here\n",
        r"tables declares None\. Rule: tables has each table's name", seen=True, text=MANY,
    ),
    "unknown key in defaults": Mistake(
        "modified: updated_at}", "modifed: updated_at} # here",
        r"orders: defaults\.source\.modifed is unknown\. Rule: the keys here are database, table, modified, lag",
        seen=True, text=MANY,
    ),
    "unknown key of one of many tables": Mistake(
        "source: {table: public.customers}", "sources: {table: public.customers} # here",
        r"customers: tables\.customers\.sources is unknown", seen=True, text=MANY,
    ),
    "one of many tables lacks its part": Mistake(
        "    customers:\n      source: {table: public.customers}\n", "    customers: # here\n",
        r"customers: defaults\.source lacks 'table'", text=MANY,
    ),
    "one of many tables twice": Mistake(
        "    customers:\n      source: {table: public.customers}\n",
        "    orders: {source: {table: public.customers}} # here\n", r"'orders' is given a second time", text=MANY,
    ),
    "name of one of many tables": Mistake(
        "source: {table: public.customers}", "name: clients # here\n      source: {table: public.customers}",
        r"tables\.customers\.name is given\. Rule: the name of a table is its key in tables", seen=True, text=MANY,
    ),
}  # fmt: skip


def test_there_are_thirty_and_the_files_without_them_are_right(tmp_path: Path) -> None:
    assert len(MISTAKES) >= 30
    for text, tables in ((PAYMENTS, 1), (MANY, 2)):
        file = written(tmp_path, text)
        assert (len(loaded(file)), reported(file)) == (tables, [])


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_line(mistake: Mistake, tmp_path: Path) -> None:
    assert mistake.text.count(mistake.old) == 1
    text = mistake.text.replace(mistake.old, mistake.new)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here")] or [3]
    file = written(tmp_path, text)
    with pytest.raises(DeclarationError) as raised:
        loaded(file)
    assert str(raised.value).startswith(f"{file}:{lines[0]}: ")
    assert re.search(mistake.says, str(raised.value))
    seen = [click.unstyle(error) for error in reported(file)]
    assert [error.partition(" ")[0] for error in seen] == ([f"{file}:{lines[0]}"] if mistake.seen else [])


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each value."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from nodes(child, (*path, key))


@pytest.mark.parametrize("odd", [5, "x", {1: [2]}], ids=repr)
def test_an_odd_value_anywhere_is_accepted_by_all_or_named_with_a_line(odd: Any, tmp_path: Path) -> None:
    whole = safe_load_yaml(PAYMENTS)
    refused = 0
    for path in nodes(whole["attributes"]):
        changed = deepcopy(whole)
        reduce(getitem, path[:-1], changed["attributes"])[path[-1]] = odd
        file = written(tmp_path, yaml.safe_dump(changed, sort_keys=False))
        try:
            loaded(file)
        except DeclarationError as error:
            assert re.match(rf"{file}:\d+: ", str(error))
            refused += 1
        else:
            assert reported(file) == []
    assert refused >= 24

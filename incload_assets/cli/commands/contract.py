"""``incload contract``: the contracts of tables, what a load does about a change of them, and their history."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.contract_view import Line, exit_code, print_contract, worded
from incload_assets.cli.support.contracts_before import contracts_before
from incload_assets.cli.support.options import AsJson, TableName, TableNames
from incload_assets.cli.support.project import Project, open_project
from incload_assets.contract.described import TableContract
from incload_assets.contract.described import as_json as written
from incload_assets.contract.differences import differences
from incload_assets.declaration.contract_of import contract_of
from incload_assets.history.contract_history import contract_history
from incload_assets.load.evolution import lake_differences
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.progress.schema_findings import look_at_schema
from incload_assets.what_if.contract_replay import ValidatedAgain, validate_again

contract = typer.Typer(no_args_is_help=True, help="Contracts: show, compare, unknown fields, history.")
LAKE = "lake"


@contract.callback()
def _several() -> None:
    """The contracts of tables: columns, keys, sequence, write strategy, checks."""


@contract.command()
def show(
    table: TableNames = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, which `incload contract diff` reads.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write this JSON to a file.")] = None,
) -> None:
    """Show the contracts of tables as they are declared; `--out` writes a file for `incload contract diff`.

    The file lists tables by name and columns in their order, and has no address and no secret. Keep it beside the
    tables: a change of a contract then shows in the review.

    - **Writes:** nothing; with `--out` the file.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload contract show --out contracts.json`
    """
    here = Path.cwd()
    with open_project() as project:
        names = table or sorted(project.tables)
        contracts = {name: contract_of(project.table(name)) for name in names}
    if out is not None:
        (here / out).write_text(written(contracts), encoding="utf-8")
        screen.say(f"{out}: {len(contracts)} contracts")
    elif as_json:
        screen.print_json(written(contracts).removesuffix("\n"))
    else:
        for name, found in contracts.items():
            print_contract(name, found)


@contract.command()
def diff(
    table: TableNames = None,
    against: Annotated[
        str,
        typer.Option(help="`lake`: the tables and logs that exist; a file of `incload contract show`; or a git ref."),
    ] = LAKE,
    replay: Annotated[
        int | None,
        typer.Option(
            "--replay",
            min=1,
            metavar="N",
            help="Also validate the rows of the N windows landed last by the declarations.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the declarations of tables with what was before, and tell what a load does about each difference.

    The exit code is 0 if nothing differs, 2 if a load goes on with every difference, and 1 if one of them stops loads.
    The lake does not hold checks, NULL, unique and personal columns, nor the sequence: compare these with a file or a
    git ref. A git ref is checked out to a temporary folder, where `incload contract show` runs.

    With `--replay` the rows that the log has are validated by the declarations, and nothing is committed: how many
    accepted rows would be quarantined, and how many quarantined ones would pass. The exit code is 1 if loads of these
    windows would stop, because more rows would be rejected than the table tolerates.

    - **Writes:** nothing.
    - **Spark:** started with `--replay` only, if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload contract diff --against contracts.json`
    """
    here = Path.cwd()

    if replay is not None and not table:
        raise IncrementalLoadError(
            "--replay without the name of a table",
            rule="it reads the rows of the tables that are named",
            remedy=f"name them: incload contract diff TABLE --replay {replay}",
        )
    with open_project() as project:
        if against == LAKE:
            names, lines = _of_lake(project, table)
        else:
            names, lines = _of_contracts(project, table, contracts_before(here / against, against))
        replayed = {} if replay is None else _replayed(project, names, replay)
    plain: Any = [line.as_plain() for line in lines]
    if as_json and replay is not None:
        plain = {"differences": plain, "replayed": [found.as_plain(name) for name, found in replayed.items()]}
    if as_json:
        screen.print_json(plain, ensure_ascii=False)
    else:
        for text in worded(lines, len(names)):
            screen.say(text)
        for name, found in replayed.items():
            for text in found.lines(name):
                screen.say(escape(text))
    raise typer.Exit(1 if any(found.stopping for found in replayed.values()) else exit_code(lines))


def _of_lake(project: Project, names: Sequence[str] | None) -> tuple[Sequence[str], list[Line]]:
    """The tables that are compared with the lake, and what differs."""
    tables = project.named(names)
    found = [(one.name, *each) for one in tables for each in lake_differences(one, project.lake)]
    return [one.name for one in tables], [Line(*each) for each in found]


def _of_contracts(
    project: Project, names: Sequence[str] | None, before: Mapping[str, TableContract]
) -> tuple[Sequence[str], list[Line]]:
    """The tables that are compared with earlier contracts, and what differs."""
    names = names or sorted({*project.tables, *before})
    for name in names:
        if name not in before:
            project.table(name)  # which says that there is none, if the declarations have none either
    declared = {name: contract_of(one) for name, one in project.tables.items()}
    pairs = [(name, differences(before.get(name), declared.get(name))) for name in names]
    return names, [Line(name, found) for name, differing in pairs for found in differing]


def _replayed(project: Project, names: Iterable[str], last: int) -> dict[str, ValidatedAgain]:
    """The verdicts of the declarations about the windows landed last, by the table's name."""
    found = {}
    with screen.apart(verbose=project.verbose) as console:
        for table in map(project.table, names):
            with console.status(f"validating the rows of {table.name}"), project.load(table) as load:
                found[table.name] = validate_again(load, last)
    return found


@contract.command()
def unknown(
    table: TableName,
    as_json: AsJson = False,
) -> None:
    """Show what the source sends otherwise than the contract says, with the lines that declare it.

    Fields outside the contract are kept beside the rows, in the log. Rows with a value that a column's type refuses are
    in quarantine. Of rows that a compaction of the log removed neither is known any more. Fields that the table's
    evolution ignores are left out. The exit code is 0 if there are none, and 2 otherwise.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload contract unknown orders`
    """
    with open_project() as project:
        wanted = project.table(table)
        found = look_at_schema(wanted, project.lake).findings
    if as_json:
        names = ("name", "what", "rows", "first", "last", "since", "line")
        plain = [{name: getattr(one, name) for name in names} for one in found]
        screen.print_json(plain, ensure_ascii=False)
    elif not found:
        screen.say(f"{wanted.name}: {wanted.contract.model_name} declares all fields of the rows that the log has.")
    else:
        grid = screen.grid("field", "what", "rows", "first", "landed (UTC)", "last", "line for the contract")
        for one in found:
            landed = f"{one.since:%Y-%m-%d %H:%M}" if one.since else ""
            grid.add_row(escape(one.name), one.what, f"{one.rows:,}", one.first, landed, one.last, escape(one.line))
        screen.print_grid(grid)
    if found:
        raise typer.Exit(2)


@contract.command()
def history(
    table: TableName,
    as_json: AsJson = False,
) -> None:
    """Show what changed in a table's contract, when and by whom, oldest first.

    Delta's history of table and log tells operations and their columns, as long as it is kept. The audit tells which
    run added columns or widened types, for `INCLOAD_AUDIT_DAYS`; the table `_loads`, which stays, tells which code
    version loaded first when.

    - **Writes:** no table and no log. Loads that ended since the last time are recorded in the lake's table `_loads`.
    - **Spark:** not started.
    - **Dagster's instance:** needed.

    Example: `incload contract history orders`
    """
    with open_project() as project:
        wanted = project.table(table)
        project.collect()
        events = contract_history(wanted, project.lake)
    if as_json:
        screen.print_json([vars(event) for event in events])
        return
    grid = screen.grid("at (UTC)", "from", "version", "who", "did", "what", "run")
    for event in events:
        grid.add_row(
            f"{event.at:%Y-%m-%d %H:%M:%S}",
            event.place,
            "" if event.version is None else str(event.version),
            escape(event.who),
            event.did,
            escape(event.what),
            event.run_id[:8],
        )
    screen.print_grid(grid)

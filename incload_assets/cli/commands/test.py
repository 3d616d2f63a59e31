"""``incload test``: cases of tables, with rows in and rows expected, before anything is loaded."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from incload_assets.cli.support import screen
from incload_assets.cli.support.options import TableNames
from incload_assets.cli.support.project import Project, open_project
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several
from incload_assets.trial.cases import FOLDER, Case, find_cases, read_case
from incload_assets.trial.outcome import Difference, differences, unexpected_stops
from incload_assets.trial.run import run

SHOWN = 20
"""Most differing rows of a case that are shown."""


def test(
    ctx: typer.Context,
    table: TableNames = None,
    spark: Annotated[bool, typer.Option("--spark", help="Evaluate every case by real loads.")] = False,
) -> None:
    """Load rows of test cases, and compare the tables with what the cases expect.

    A case is a file `tests/TABLE/CASE.yaml` beside the tables: windows in the order of their loads, and the rows that
    are expected. It is evaluated without Spark where that is exact, else by real loads into a folder that is removed.
    The exit code is 1 if a case differs.

    - **Writes:** no table and no log.
    - **Spark:** not started, unless a case needs it or `--spark` is given.
    - **Dagster's instance:** not used.

    Example: `incload test orders`
    """
    failed = 0
    with open_project(verbose=ctx.obj) as project:
        cases = _cases(project, table)
        for case in cases:
            failed += not _passes(project, case, by_spark=spark)
    screen.say(f"{several(len(cases), 'case')}, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _cases(project: Project, names: list[str] | None) -> list[Case]:
    """The cases of the tables with the given names, or of all."""
    wanted = {one.name for one in project.named(names)}
    found = find_cases(project.folder, project.tables)
    cases = [read_case(file, project.tables[name]) for file, name in found.items() if name in wanted]
    lacking = sorted(wanted - {case.table.name for case in cases}) if names else []
    if lacking or not cases:
        name = lacking[0] if lacking else "TABLE"
        raise IncrementalLoadError(
            f"{name if lacking else 'no table'} has {'no' if lacking else 'a'} test case",
            rule=f"a case is a file {FOLDER}/{name}/CASE.yaml beside the tables",
            remedy="write one: incload docs tables test-cases",
        )
    return cases


def _passes(project: Project, case: Case, *, by_spark: bool) -> bool:
    """Evaluates a case and prints its line, with the rows that differ."""
    outcome = run(case, project.spark, project.lake, by_spark=by_spark)
    wrong, stops = [*differences(case, outcome)], [*unexpected_stops(case, outcome)]
    mark = "[red]✗[/]" if wrong or stops else "[green]✓[/]"
    counts = f"{several(len(outcome.rows), 'row')}, {len(outcome.rejected)} rejected"
    screen.say(f"{mark} {escape(_place(project, case.file))}  {counts}  ({escape(outcome.by)})")
    for line in stops:
        screen.say(f"  {escape(line)}")
    for of in dict.fromkeys(each.of for each in wrong):
        of_kind = [each for each in wrong if each.of == of]
        screen.print_grid(_grid(of, of_kind[:SHOWN]))
        if len(of_kind) > SHOWN:
            screen.say(f"  and {len(of_kind) - SHOWN} more")
    return not wrong and not stops


def _place(project: Project, file: Path) -> str:
    return str(file.relative_to(project.folder))


def _grid(of: str, wrong: list[Difference]) -> Grid:
    """The rows that differ, expected above found; the cells that differ are in brackets."""
    names = list(dict.fromkeys(name for each in wrong for row in (each.expected, each.found) for name in row or ()))
    grid = screen.grid(of, *names)
    for each in wrong:
        for said, row in (("expected", each.expected), ("found", each.found)):
            alone = " only" if each.expected is None or each.found is None else ""
            if row is None:
                continue
            cells = ["NULL" if row.get(name) is None else str(row[name]) for name in names]
            marked = [
                f"[red]{escape(f'[{cell}]')}[/]" if name in each.columns else escape(cell)
                for name, cell in zip(names, cells, strict=True)
            ]
            grid.add_row(f"{said}{alone}", *marked)
    return grid

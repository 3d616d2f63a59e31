"""``incload erase`` and ``incload reveal``: a person's data, erased with a proof, or turned back into plain text."""

import sys
from collections.abc import Callable
from functools import reduce
from typing import Annotated

import typer
from pyspark.sql import Column
from pyspark.sql import functions as F
from rich.console import Console
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.options import Yes, confirm
from incload_assets.cli.support.project import Project, open_project
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import Erasure, fingerprints_of
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.sql import col
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.protection.reveal import revealed, sealed_columns
from incload_assets.protection.row_key import key_of

MOST = 20


def erase(
    ctx: typer.Context,
    kind: Annotated[str, typer.Argument(help="The kind of person, as the tables' subjects name it: `customer`.")],
    value: Annotated[str, typer.Argument(help="The person's identifier, as the sources have it; `-`: from the input.")],
    only_plan: Annotated[bool, typer.Option("--plan", help="Only look; nothing is changed.")] = False,
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Only print the person's fingerprints, for the job in the UI.")
    ] = False,
    because: Annotated[str, typer.Option(help="The reason, for the audit.")] = "",
    yes: Yes = False,
) -> None:
    """Erase a person from all tables, and search every file of the lake for a trace.

    Tables, logs, former landings and quarantine lose the person's rows; old versions are removed, so no table can be
    read as it was before. A keyed fingerprint stays, by which loads leave the person's rows out from now on. The tables
    are paused meanwhile. An erasure cannot be undone: it shows what it would find, and goes on when the identifier is
    typed once more. One that was interrupted goes on when it is repeated. The exit code is 1 if a file still has a
    trace.

    - **Writes:** tables, logs, former landings, the deny list and the audit in the lake; with `--plan` nothing.
    - **Spark:** started if it is not up; not for `--fingerprint`.
    - **Dagster's instance:** needed, to know that no run loads the tables.

    Example: `incload erase customer 4711 --plan`
    """
    value = sys.stdin.readline().rstrip("\n") if value == "-" else value
    with open_project(verbose=ctx.obj) as project:
        found = fingerprints_of(project.tables.values(), kind, value, create=True)
        if fingerprint:
            for one in sorted(found):
                typer.echo(one)
            return
        with screen.apart(verbose=project.verbose) as console:

            def plan() -> Erasure:
                return _made(project, console, kind, found, Eraser.plan)

            if only_plan:
                made = plan()
            else:
                command, what = "incload erase", f"the identifier of the {kind}"
                confirm(command, value, what, lambda: plan().lines(planned=True), yes=yes, console=console)
                made = _made(project, console, kind, found, lambda e: e.erase(project.instance, because=because))
            for line in made.lines(planned=only_plan):
                console.print(line, markup=False)
    if not (only_plan or made.is_proven):
        raise typer.Exit(1)


def _made(
    project: Project, console: Console, kind: str, fingerprints: frozenset[str], work: Callable[[Eraser], Erasure]
) -> Erasure:
    """The result of an erasure or its plan, with a progress bar meanwhile."""
    with project.spark("erase") as spark, screen.progress_bar(console) as progress:
        bar = progress.add_task(f"erasing a {kind}", total=None)
        eraser = Eraser(
            spark,
            project.lake,
            [*project.tables.values()],
            kind,
            fingerprints,
            info=lambda step: progress.update(bar, description=step),
            done=lambda read, of: progress.update(bar, completed=read, total=of),
        )
        made = work(eraser)
        progress.remove_task(bar)
        return made


def reveal(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `customers`.")],
    key: Annotated[list[str], typer.Argument(help="The row's key, for example `customer_id=1000030`; a column each.")],
    because: Annotated[str, typer.Option("--because", help="Why, for the audit.")],
) -> None:
    """Show the tokenized and encrypted values of a row in plain text, to whoever has the keys.

    A value that cannot be turned back shows as such: its person was erased, or another key made it. At most 20 rows
    are shown, of tables where a key has several.

    - **Writes:** an entry of the audit, before anything is shown; it has no values.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload reveal customers customer_id=1000030 --because "request 4711"`
    """
    with open_project(verbose=ctx.obj) as project:
        lake, declared = project.lake, project.table(table)
        names, wanted = sealed_columns(declared), key_of(declared, key)
        uri = lake.table_uri(declared.key.path)
        if lake.delta(uri) is None:
            raise IncrementalLoadError(
                f"{declared.name}: {uri} holds no table", remedy=f"load it: incload load {declared.name} --all-missing"
            )
        with screen.apart(verbose=project.verbose), project.spark(declared.name) as spark:
            rows = spark.read.format("delta").load(lake.spark_uri(uri))
            chosen = reduce(Column.__and__, (col(name).eqNullSafe(F.lit(value)) for name, value in wanted.items()))
            there = {f"_has_{name}": col(name).isNotNull() for name in names}
            found = revealed(rows.filter(chosen).withColumns(there), declared, lake).limit(MOST).collect()
        details = {"by": "incload reveal", "columns": ", ".join(names), "rows": str(len(found))}
        record(lake, AuditEntry(action="read", table=declared.name, because=because, details=details))
    if not found:
        screen.say(f"{declared.name}: no row has this key.")
    for number, row in enumerate(found):
        if number:
            screen.say("")
        for name in names:
            no_value = "cannot be turned back: its key is gone, or is another one" if row[f"_has_{name}"] else "NULL"
            screen.say(escape(f"{name}: {f'({no_value})' if row[name] is None else row[name]}"))

"""``incload reveal``: the tokenized and encrypted values of a row, in clear."""

from typing import Annotated

import typer

MOST = 20


def reveal(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `customers`.")],
    key: Annotated[list[str], typer.Argument(help="The row's key, for example `customer_id=1000030`; a column each.")],
    because: Annotated[str, typer.Option("--because", help="Why, for the audit.")],
) -> None:
    """Show the tokenized and encrypted values of a row in clear, to whoever has the keys.

    A value that cannot be turned back shows as such: its person was erased, or another key made it. At most 20 rows
    are shown, of tables where a key has several.

    - **Writes:** an entry of the audit, before anything is shown; it has no values.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload reveal customers customer_id=1000030 --because "request 4711"`
    """
    from functools import reduce

    from pyspark.sql import Column
    from pyspark.sql import functions as F
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.delta.sql import col
    from incload_assets.monitoring.rows.reveal import revealed, sealed_columns
    from incload_assets.monitoring.rows.row_key import key_of
    from incload_assets.progress.audit import AuditEntry, record
    from resources.errors import IncrementalLoadError
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    with open_project() as project:
        lake, declared = Lake.of(Settings()), project.table(table)
        names, wanted = sealed_columns(declared), key_of(declared, key)
        uri = lake.table_uri(declared.key.path)
        if lake.delta(uri) is None:
            raise IncrementalLoadError(
                f"{declared.name}: {uri} holds no table", remedy=f"load it: incload load {declared.name} --all-missing"
            )
        with screen.apart(verbose=ctx.obj), SparkResource().session(declared.name) as spark:
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

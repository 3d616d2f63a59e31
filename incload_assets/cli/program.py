"""The ``incload`` program: its commands, and its error messages."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from incload_assets.cli import screen
from incload_assets.cli.adopt import adopt
from incload_assets.cli.audit import audit
from incload_assets.cli.backup import backup, restore_instance
from incload_assets.cli.check import check
from incload_assets.cli.compact import compact
from incload_assets.cli.contract import contract
from incload_assets.cli.dashboard import dashboard
from incload_assets.cli.demo import demo
from incload_assets.cli.dev import dev
from incload_assets.cli.docs import docs
from incload_assets.cli.doctor import doctor
from incload_assets.cli.erase import erase
from incload_assets.cli.fill import fill
from incload_assets.cli.fix import accept, discard
from incload_assets.cli.game_day import game_day
from incload_assets.cli.history import history
from incload_assets.cli.load import load
from incload_assets.cli.metrics import metrics
from incload_assets.cli.monitoring import monitoring
from incload_assets.cli.pause import pause, resume
from incload_assets.cli.plan import plan
from incload_assets.cli.quarantine import quarantine
from incload_assets.cli.ready import ready
from incload_assets.cli.rebuild import rebuild
from incload_assets.cli.replay import replay
from incload_assets.cli.reveal import reveal
from incload_assets.cli.shadow import shadow
from incload_assets.cli.silence import silence
from incload_assets.cli.slo import slo
from incload_assets.cli.spark import spark
from incload_assets.cli.status import status
from incload_assets.cli.stop import stop
from incload_assets.cli.trace import trace
from incload_assets.cli.undo import release, undo
from incload_assets.platform.errors import IncrementalLoadError


class _Commands(TyperGroup):
    """Commands that print an expected error as one message, and an unexpected error as one line with a hint."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):  # Typer prints these itself
            raise
        except Exception as error:
            if ctx.params.get("verbose"):
                raise
            screen.complain(_message_of(error))
            raise typer.Exit(1) from None


program = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,  # locals may hold credentials
    context_settings={"help_option_names": ["-h", "--help"]},
)
program.command()(dev)
program.command()(demo)
program.command()(load)
program.command()(plan)
program.command()(status)
program.command()(check)
program.command()(trace)
program.command()(slo)
program.command()(ready)
program.command()(compact)
program.add_typer(contract, name="contract")
program.command()(history)
program.command()(undo)
program.command()(release)
program.command()(rebuild)
program.command()(doctor)
program.command()(pause)
program.command()(resume)
program.command()(silence)
program.command()(audit)
program.command()(quarantine)
program.command()(replay)
program.command()(fill)
program.command()(accept)
program.command()(discard)
program.command()(adopt)
program.command()(shadow)
program.command()(erase)
program.command()(reveal)
program.command()(backup)
program.command(name="restore-instance")(restore_instance)
program.command()(metrics)
program.add_typer(monitoring, name="monitoring")
program.command()(dashboard)
program.command()(game_day)
program.command()(stop)
program.command()(docs)
program.add_typer(spark, name="spark")


@program.callback()
def incload(
    ctx: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show Dagster's log while loading, and stack traces of errors.")
    ] = False,
) -> None:
    """Load, check and maintain incremental tables from a terminal.

    Commands work on the same Dagster instance as the UI: what is loaded here is green there. The help of each command
    shows what it writes, whether it starts Spark, and an example.
    """
    ctx.obj = verbose


def _message_of(error: Exception) -> str:
    """The message of an error for a person."""
    from pydantic import ValidationError

    if isinstance(error, IncrementalLoadError):
        return str(error)
    if isinstance(error, ValidationError) and error.title == "Settings":
        lines = [
            f"INCLOAD_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors(include_input=False)
        ]
        return "\n".join(lines)
    return f"{type(error).__name__}: {error}. Unexpected; `incload --verbose …` shows the stack trace."

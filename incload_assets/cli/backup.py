"""``incload backup`` and ``incload restore-instance``: Dagster's default storage, saved and put back."""

from pathlib import Path
from typing import Annotated

import typer

from incload_assets.cli.confirm import Yes, confirm


def backup(
    to: Annotated[Path | None, typer.Option("--to", help="Folder of the backups; default: INCLOAD_BACKUPS.")] = None,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Keep so many, the newest.")] = 14,
) -> None:
    """Save Dagster's storage, with all checkpoints, while Dagster may be running; a job does so every night.

    It saves the default storage, SQLite files. Postgres is saved by its own means. Put the folder on another disk.

    - **Writes:** an archive to the folder; older ones are removed. An entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** read.

    Example: `incload backup --to /mnt/backups`
    """
    from incload_assets.cli import screen
    from incload_assets.cli.project import open_project
    from incload_assets.platform.lake import Lake
    from incload_assets.platform.settings import Settings
    from incload_assets.platform.wording import size
    from incload_assets.progress.audit import AuditEntry, record
    from incload_assets.progress.backup import back_up

    with open_project() as project:
        done = back_up(project.instance, to or Settings().backups_root, keep)
        record(Lake.of(Settings()), AuditEntry(action="backup", details={"file": str(done.file)}))
    older = f"; removed {len(done.removed)} older" if done.removed else ""
    screen.say(f"{done.file}: {done.databases} databases, {size(done.file.stat().st_size)}{older}")


def restore_instance(
    file: Annotated[Path, typer.Argument(help="An archive that `incload backup` made.")],
    yes: Yes = False,
) -> None:
    """Put a backup of Dagster's storage back. Dagster must not be running.

    It shows how many runs the backup lacks, and goes on when the name of the backup's file is typed.

    Loads since the backup are requested again, and write only what differs; `incload rebuild` proves them without
    reading their sources.

    - **Writes:** Dagster's storage. What was there is moved aside, and the folder is named. An entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** replaced.

    Example: `incload restore-instance .incload/backups/dagster-20260103T024000Z.zip`
    """
    import os

    from incload_assets.cli import screen
    from incload_assets.cli.folder import enter_project
    from incload_assets.platform.lake import Lake
    from incload_assets.platform.settings import Settings
    from incload_assets.platform.wording import several
    from incload_assets.progress.audit import AuditEntry, record
    from incload_assets.progress.backup import replaced_by, restore

    given = file.absolute()
    enter_project()
    home = Path(os.environ["DAGSTER_HOME"])

    def gone() -> list[str]:
        runs, since = replaced_by(given, home)
        newer = f"{since} of {several(runs, 'run')} in {home} began after {given.name} was made"
        return [f"{newer}; they, their checkpoints and logs will be gone from Dagster"] if runs else []

    confirm("incload restore-instance", given.name, "the name of the backup's file", gone, yes=yes)
    replaced = restore(given, home)
    details = {"backup": given.name, "replaced": str(replaced)}
    record(Lake.of(Settings()), AuditEntry(action="restore", details=details))
    screen.say(f"restored {given.name}; what was there is in {replaced}")

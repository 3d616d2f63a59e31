"""Backups of Dagster's default storage, which is in SQLite files; they can be made while Dagster runs.

Each file is copied by SQLite's own backup, which is one consistent state of it. Events are copied before the runs that
they belong to, so that a backup never has an event whose run it lacks. What was recorded meanwhile may be in one file
and not in another: such a load is repeated once. Other storages (Postgres, MySQL) have backups of their own.
"""

import shutil
import sqlite3
import zipfile
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg

from incload_assets.platform.errors import IncrementalLoadError

KEPT = 14
"""The number of backups that are kept, by default: two weeks of nights."""
LAST = ("history/runs.db",)
"""Files that are copied after all others."""
_NAME, _STAMP = "dagster-", "%Y%m%dT%H%M%SZ"
_ALIVE_SECONDS = 60


@dataclass(frozen=True)
class Backup:
    """A backup that was made.

    Args:
        file: The archive.
        databases: Number of SQLite files in it.
        removed: Older archives that were removed.
    """

    file: Path
    databases: int
    removed: list[Path]


def is_sqlite(instance: dg.DagsterInstance) -> bool:
    """True if all of an instance's storage is in SQLite files below its folder."""
    storages = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
    return instance.is_persistent and all("sqlite" in type(storage).__module__ for storage in storages)


def back_up(instance: dg.DagsterInstance, folder: Path, keep: int = KEPT) -> Backup:
    """Makes a backup of an instance's storage, and removes older ones.

    Args:
        instance: An instance that keeps its storage in SQLite files.
        folder: Where backups are; made if it is not there.
        keep: The number of backups to keep, with this one.

    Raises:
        IncrementalLoadError: The instance's storage is of another kind.

    Example:
        >>> back_up(instance, Path("/srv/backups")).file.name  # doctest: +SKIP
        'dagster-20260103T024000Z.zip'
    """
    if not is_sqlite(instance):
        raise IncrementalLoadError(
            f"Dagster's storage is {type(instance.run_storage).__name__}",
            rule="incload backs up Dagster's default storage, SQLite files",
            remedy="use the backup of the database, for example pg_dump",
        )
    root = Path(instance.root_directory)
    found = sorted(path for part in ("history", "schedules") for path in (root / part).rglob("*.db"))
    files = sorted(found, key=lambda path: path.relative_to(root).as_posix() in LAST)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{_NAME}{datetime.now(UTC):{_STAMP}}.zip"
    with TemporaryDirectory(dir=folder, prefix=".unfinished-") as unfinished:
        archive, copy = Path(unfinished) / target.name, Path(unfinished) / "copy.db"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as into:
            for file in files:
                _copy(file, copy)
                into.write(copy, file.relative_to(root).as_posix())
                copy.unlink()
        archive.rename(target)
    old = backups(folder)[:-keep]
    for file in old:
        file.unlink()
    return Backup(target, len(files), old)


def _copy(file: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)


def backups(folder: Path) -> list[Path]:
    """The backups in a folder, oldest first."""
    return sorted(folder.glob(f"{_NAME}*.zip"))


def made_at(backup: Path) -> datetime:
    """When a backup was made, aware."""
    return datetime.strptime(backup.stem, f"{_NAME}{_STAMP}").replace(tzinfo=UTC)


def replaced_by(backup: Path, home: Path) -> tuple[int, int]:
    """The runs that are in the place of a backup: all of them, and those since it was made.

    Args:
        backup: The archive.
        home: Dagster's folder, as for :func:`restore`.

    Raises:
        IncrementalLoadError: As :func:`restore`; nothing is changed.
    """
    expect_restorable(backup, home)
    if not (home / "history" / "runs.db").exists():
        return 0, 0
    with dg.DagsterInstance.from_config(str(home)) as instance:
        since = dg.RunsFilter(created_after=made_at(backup))
        return instance.get_runs_count(), instance.get_runs_count(since)


def expect_restorable(backup: Path, home: Path) -> None:
    """Refuses what :func:`restore` refuses."""
    try:
        with zipfile.ZipFile(backup) as archive:
            names, damaged = archive.namelist(), archive.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        raise _no_backup(backup, str(error)) from error
    expected = all(n.endswith(".db") and Path(n).parts[0] in ("history", "schedules") for n in names)
    if damaged or not names or not expected or any(".." in Path(name).parts for name in names):
        raise _no_backup(backup, f"{damaged} is damaged" if damaged else "it holds other files")
    refuse_while_running(home)


def restore(backup: Path, home: Path) -> Path:
    """Puts a backup in the place of an instance's storage.

    Args:
        backup: The archive.
        home: Dagster's folder, ``DAGSTER_HOME``. No process of Dagster may be using it.

    Returns:
        The folder with the storage that was replaced.

    Raises:
        IncrementalLoadError: The archive is none of :func:`back_up`, or Dagster is running.
    """
    expect_restorable(backup, home)
    replaced = home / f"replaced-{datetime.now(UTC):{_STAMP}}"
    replaced.mkdir()
    for part in ("history", "schedules"):
        if (home / part).exists():
            shutil.move(home / part, replaced / part)
    with zipfile.ZipFile(backup) as archive:
        archive.extractall(home)
    return replaced


def _no_backup(file: Path, why: str) -> IncrementalLoadError:
    return IncrementalLoadError(
        f"{file}: {why}",
        rule="a backup is an archive that incload backup made",
        remedy="name another one; nothing was changed",
    )


def refuse_while_running(home: Path) -> None:
    """Refuses to go on while a daemon of Dagster uses a folder.

    Args:
        home: Dagster's folder.

    Raises:
        IncrementalLoadError: One of its daemons has given a sign of life within a minute.
    """
    if not (home / "history" / "runs.db").exists():
        return
    with dg.DagsterInstance.from_config(str(home)) as instance:
        beats = [beat.timestamp for beat in instance.get_daemon_heartbeats().values()]
    if beats and datetime.now(UTC).timestamp() - max(beats) < _ALIVE_SECONDS:
        raise IncrementalLoadError(
            f"a daemon of Dagster is using {home}",
            rule="the storage of a running Dagster cannot be replaced",
            remedy="stop incload dev, or dagster-daemon and the webserver, wait a minute and try again",
        )

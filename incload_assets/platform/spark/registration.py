"""The registration of a Spark driver with a lake in a store where Delta's commits are safe from one driver only.

A driver registers by a file ``_driver/<number>.json`` in the lake. It creates the file only if there is none of that
name, by a conditional put, as deltalake commits, so that of two drivers one is refused. The file with the greatest
number counts while its driver writes it again and again; a driver that could not do that for some time must end, long
before another one may take its place. So a driver that was killed, or has lost the network, is replaced without a
person, and one that only stood still ends when it goes on. The ages of registrations are by the clock of the store.
"""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import uuid4

import fsspec
import psutil

from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.failures import masked
from incload_assets.platform.object_stores import DRIVER_FOLDER, kind_of, object_store, with_own_scheme
from incload_assets.platform.object_stores.s3 import S3
from incload_assets.platform.settings import Settings

RENEWED_AFTER = timedelta(seconds=20)
"""Age at which a driver writes its registration again."""
ENDS_AFTER = timedelta(seconds=60)
"""Time without a successful renewal after which a driver ends."""
LAPSES_AFTER = timedelta(seconds=120)
"""Age at which another driver may register; longer than the above by more than a request takes."""
_SERVER = re.compile(r"sc://(?:[^/@]*@)?(?P<host>\[[^]]*]|[^:/;]*)(?::(?P<port>\d+))?")
_PORT = "15002"


@dataclass(frozen=True)
class Driver:
    """A Spark driver as its registration names it: who it is, and where, for people and to see whether it is gone.

    ``where`` names the processes that can see each other: one boot of one machine, one container. ``began`` is when the
    process began there, because another process may get the number of one that has ended.
    """

    identity: str
    description: str
    pid: int = 0
    where: str = ""
    began: str = ""

    @classmethod
    def of_process(cls, description: str) -> "Driver":
        """A driver that lives as long as this process, which starts Spark."""
        pid, host = os.getpid(), socket.gethostname()
        return cls(uuid4().hex, f"{description}, process {pid} on {host}", pid, _where(), _began(pid) or "")

    @classmethod
    def at(cls, address: str) -> "Driver":
        """A Spark Connect server that others have started; its clients register it together."""
        found = _SERVER.match(masked(address))
        assert found is not None, "the setting begins with sc://"
        host, port = found["host"].lower(), found["port"] or _PORT
        name = f"{host}:{port}"
        if host in ("localhost", "127.0.0.1", "[::1]"):
            name = f"{name} of {socket.gethostname()}"
        return cls(f"server {name}", f"the Spark Connect server {name}")

    @property
    def is_gone(self) -> bool:
        """True if the driver was a process beside this one, and has ended."""
        if not self.where or self.where != _where():
            return False
        if not psutil.pid_exists(self.pid):
            return True
        began = _began(self.pid)
        return began == "" or bool(began and self.began and began != self.began)


_UNKNOWN = Driver("unknown", "one whose registration cannot be read")
_NOT_CONDITIONAL = (
    "the store does not know If-None-Match, so that two drivers which start at the same time are not kept apart"
)


class Registration:
    """The registration of one driver with one lake."""

    def __init__(self, lake: str, driver: Driver) -> None:
        self.lake, self.driver = lake, driver
        self._folder = f"{lake}/{DRIVER_FOLDER}"
        self._store = _store_of(lake)
        self._number = 0
        self._renewed = _now()

    def check(self) -> None:
        """Raises SparkUnavailable if another driver is registered, IncrementalLoadError if the store refuses."""
        with self._translated():
            self._free()

    def register(self) -> None:
        """Registers the driver; raises as :meth:`check` does, also if another one was faster."""
        content = json.dumps(asdict(self.driver)).encode()
        with self._translated():
            number, mine = self._free()
            if mine:  # it was renewed lately, so nobody else may register now
                self._number = number
                self._write(content)
                return
            self._number = number + 1
            try:
                self._create(content)
            except FileExistsError:
                other = self._read(self._number) or _UNKNOWN
                if other.identity != self.driver.identity:
                    raise self._refused(other) from None
                # of another client of the same server, or of this one's request whose answer was lost
                self._write(content)
                return
            with suppress(FileExistsError):
                self._create(content)
                print(f"WARN {self.lake}: {_NOT_CONDITIONAL}", flush=True)
            if number:
                with suppress(OSError):
                    self._client.rm_file(self._path(number))

    def keep(self) -> bool:
        """Renews the registration if it is time; returns False if the driver must end."""
        age = _now() - self._renewed
        if age > LAPSES_AFTER.total_seconds():  # the machine stood still, and another driver may be there
            return False
        if age < RENEWED_AFTER.total_seconds():
            return True
        try:
            newest, _, _ = self._newest()
            if newest > self._number:
                return False
            self._write(json.dumps(asdict(self.driver)).encode())
        except Exception as error:  # every one, because nobody would see how the renewing thread ends
            told = failure.code if (failure := self._store.failure(error)) else type(error).__name__
            print(f"WARN the registration in {self._folder} could not be renewed: {told}", flush=True)
            return _now() - self._renewed < ENDS_AFTER.total_seconds()
        return True

    def release(self) -> None:
        """Lets another driver register at once."""
        with suppress(Exception):  # it lapses by itself
            if self._newest()[0] == self._number:
                gone = Driver("", f"{self.driver.description}, which has ended")
                self._client.pipe_file(self._path(self._number), json.dumps(asdict(gone)).encode())

    def keep_aside(self, lost: Callable[[], None] = lambda: None) -> threading.Event:
        """Renews the registration by a thread until the event is set; sets it and calls ``lost`` if it must end."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(RENEWED_AFTER.total_seconds() / 2):
                if not self.keep():
                    over.set()
                    lost()
                    return

        threading.Thread(target=renew, name="incload-driver", daemon=True).start()
        return over

    @property
    def _client(self) -> fsspec.AbstractFileSystem:
        return self._store.file_system()

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:012}.json"

    def _newest(self) -> tuple[int, str | None, float]:
        """The greatest number, the path and age of its file; 0, None and 0 if there is none."""
        found = list(self._store.objects(f"{self._folder}/", None, None, nested=False))
        if not found:
            return 0, None, 0
        newest = found[-1]
        name = newest.path.rpartition("/")[2].removesuffix(".json")
        return int(name), newest.path, (self._store.now(newest.path) - newest.modified).total_seconds()

    def _free(self) -> tuple[int, bool]:
        """The greatest number so far, and whether it is this driver's; raises if another driver is in its place."""
        number, path, age = self._newest()
        other = self._read(number) if path else None
        if other is None or not other.identity or age >= LAPSES_AFTER.total_seconds() or other.is_gone:
            return number, False
        if other.identity != self.driver.identity:
            raise self._refused(other)
        return number, True

    def _read(self, number: int) -> Driver | None:
        try:
            return Driver(**json.loads(self._client.cat_file(self._path(number))))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            return _UNKNOWN

    def _create(self, content: bytes) -> None:
        began = _now()
        try:
            self._client.pipe_file(self._path(self._number), content, mode="create")
        except Exception as error:
            failure = self._store.failure(error)
            if failure is not None and failure.code in ("PreconditionFailed", "ConditionalRequestConflict", "412"):
                raise FileExistsError(self._path(self._number)) from None
            raise
        self._renewed = began

    def _write(self, content: bytes) -> None:
        began = _now()
        self._client.pipe_file(self._path(self._number), content)
        self._renewed = began

    def _refused(self, other: Driver) -> SparkUnavailable:
        return SparkUnavailable(
            f"the lake {self.lake} has another Spark driver: {other.description}",
            rule=f"Delta's commits on {self._store.name} are safe from one Spark driver only; a second one could "
            "overwrite a commit of the first",
            remedy="let all machines use one Spark Connect server (INCLOAD_SPARK=sc://…), or stop that one; one that "
            f"was killed is replaced after {LAPSES_AFTER.total_seconds():.0f} seconds",
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IncrementalLoadError:
            raise
        except Exception as error:
            if (failure := self._store.failure(error)) is None:
                raise
            doing = f"the Spark driver of the lake {self.lake} cannot be registered ({failure.code})"
            if failure.kind in ("silent", "busy"):
                remedy = f"check the network and {self._store.endpoint_variable}; the next run starts over"
                raise SparkUnavailable(doing, remedy=remedy) from None
            rule = f"Spark reads and writes the lake, and a file in {DRIVER_FOLDER} says which driver does"
            remedy = f"check the bucket's name and the rights on it; {self._store.credentials}"
            raise IncrementalLoadError(doing, rule=rule, remedy=remedy) from None


def lake_of_one_driver(settings: Settings) -> str | None:
    """The lake of the settings, if only one Spark driver may commit there; else None."""
    kind, root = kind_of(settings.lake_root), with_own_scheme(settings.lake_root)
    return root if kind is not None and kind.one_driver else None


def _store_of(lake: str) -> S3:
    store = object_store(lake)
    assert isinstance(store, S3)
    return store


def _now() -> float:
    """Seconds that also pass while the machine sleeps, where the system can tell."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _where() -> str:
    """The boot and the process namespace that this process is in; empty where the system does not tell."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _began(pid: int) -> str | None:
    """When a process began, in ticks since the boot; empty if it has ended unnoticed, None if the system does not tell.

    psutil's time of it moves with the clock of the machine, and so would make a driver that runs look gone.
    """
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        state, *values = file.read().rpartition(")")[2].split()
        return "" if state in "ZX" else values[18]
    return None

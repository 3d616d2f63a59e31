"""Chunks of a window: rows that are staged and not committed, so that another process can go on where one was killed.

The files of a chunk are in a folder of its own within the log, and no version of the log contains them until one commit
adds the files of all chunks. A note beside the files, written last, says what the chunk is of; without it the folder is
an unfinished one, which a vacuum removes. A chunk is only used as long as nothing has changed that it depends on: the
code, the columns of the log, those that other code has added to it, and the erasures of persons.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.staged import FOLDER, Staged, StagedFile, written_files
from incload_assets.declaration import window as windows
from incload_assets.declaration.source import Position

CHUNKS = f"{FOLDER}/chunks"
NOTE = "chunk.note"
MAX_AGE = timedelta(hours=36)
"""How long a chunk is used: a vacuum removes files that were not committed within the log's retention of two days."""


@dataclass(frozen=True)
class InChunks:
    """How a window is read: in about so many chunks, and so many of them at a time."""

    number: int
    at_once: int


@dataclass(frozen=True)
class Chunk:
    """A chunk that was read: its position, its files, the facts of its rows as a window's record has them.

    ``of`` is the position of the window before it was read, ``unseen`` the fields of conditions that had no value in
    any record.
    """

    position: Position
    of: Position
    asked: InChunks
    facts: Mapping[str, Any]
    unseen: tuple[str, ...]
    files: Sequence[StagedFile]

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return sum(file.rows for file in self.files)


class Chunks:
    """The chunks of a window that were read and are not landed yet."""

    def __init__(self, log: ChangeLog, window: str) -> None:
        self._log, self._window = log, window
        # the key of a window may have characters that a folder may not, or that Hadoop would escape
        self.place = f"{CHUNKS}/{blake2b(window.encode(), digest_size=8).hexdigest()}"

    def keep(
        self,
        staged: Staged,
        position: Position,
        of: Position,
        asked: InChunks,
        facts: Mapping[str, Any],
        unseen: Sequence[str],
    ) -> Chunk:
        """Leaves the staged rows of a chunk for the commit of the window, by whichever process."""
        files = list(staged.files)
        note = self._given_by(staged) | {
            "position": _told(position),
            "of": _told(of),
            "asked": [asked.number, asked.at_once],
            "facts": dict(facts),
            "unseen": list(unseen),
            "files": {file.path: file.size for file in files},
            "read_at": windows.now().isoformat(),
        }
        [folder] = staged.keep()
        with self._log.lake.files(self._log.uri) as lake:
            lake.create_dir(folder, recursive=True)
            with lake.open_output_stream(f"{folder}/{NOTE}") as out:  # as Parquet, as this kind of stream takes no text
                pq.write_table(pa.table({"chunk": [json.dumps(note)]}), out)
        return Chunk(position, of, asked, facts, tuple(unseen), files)

    def begun(self) -> bool:
        """True if chunks of the window may be there, usable or not."""
        with self._log.lake.files(self._log.uri) as lake:
            return bool(_folders(lake, self.place))

    def found(self, staged: Staged) -> list[Chunk]:
        """The chunks that a commit of ``staged`` may add, the oldest first: of the present code, whole, not too old."""
        return [*self._found(staged)]

    def forget(self) -> None:
        """Removes the notes, so that no process uses the chunks any more; the files are the log's, or a vacuum's."""
        with self._log.lake.files(self._log.uri) as lake:
            for folder in _folders(lake, self.place):
                if lake.get_file_info(f"{folder}/{NOTE}").type == pafs.FileType.File:
                    lake.delete_file(f"{folder}/{NOTE}")

    def _given_by(self, staged: Staged) -> dict[str, object]:
        return {
            "window": self._window,
            "code_version": self._log.table.code_version,
            "schema": self._log.schema.json(),  # a code version that is pinned may stay as the contract changes
            "barrier": staged.barrier,
            "foreign": list(staged.foreign),
        }

    def _found(self, staged: Staged) -> Iterator[Chunk]:
        given, since = self._given_by(staged), windows.now() - MAX_AGE
        with self._log.lake.files(self._log.uri) as lake:
            folders = _folders(lake, self.place)
            notes = {folder: _note(lake, folder) for folder in folders}
        known = {folder: note for folder, note in notes.items() if note is not None}
        for folder, note in sorted(known.items(), key=lambda one: one[1]["read_at"]):
            if {name: note.get(name) for name in given} != given:
                continue
            if datetime.fromisoformat(note["read_at"]) < since:
                continue
            files = list(written_files(self._log, folder, lambda _: self._window))
            if {file.path: file.size for file in files} == note["files"]:
                position, of, asked = Position(*note["position"]), Position(*note["of"]), InChunks(*note["asked"])
                yield Chunk(position, of, asked, note["facts"], tuple(note["unseen"]), files)


def _told(position: Position) -> list[Any]:
    return [position.fingerprint, dict(position.detail), position.summary, position.size]


def _folders(lake: pafs.FileSystem, place: str) -> list[str]:
    found = lake.get_file_info(pafs.FileSelector(place, allow_not_found=True))
    return sorted(info.path for info in found if info.type == pafs.FileType.Directory)


def _note(lake: pafs.FileSystem, folder: str) -> dict[str, Any] | None:
    if lake.get_file_info(f"{folder}/{NOTE}").type != pafs.FileType.File:
        return None
    with lake.open_input_file(f"{folder}/{NOTE}") as source:
        found: dict[str, Any] = json.loads(pq.read_table(source)["chunk"][0].as_py())
        return found

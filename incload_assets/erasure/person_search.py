"""Traces of erased subjects in files: words whose fingerprints are those of a subject.

Parquet files are decoded: all columns with their nested members, and the ranges in their footers. Of other files all
bytes are read as text, decompressed if they are compressed; a file that cannot be decompressed counts as not read.
Words are told apart as in :mod:`incload_assets.ingest.erased`. Numbers, and words of fewer than six digits, tell nobody
apart, so they are compared in the columns that subjects are named by, and nowhere else.
"""

import hmac
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from incload_assets.erasure.old_versions import files_of_data
from incload_assets.erasure.unpacked import CannotUnpack, is_parquet, unpacked
from incload_assets.ingest.erased import SEPARATORS
from incload_assets.platform.lake import Lake
from incload_assets.platform.protection_keys import ERASURE, erasure_key, token_prefix
from incload_assets.protection.person_keys import person_keys_uri, store_of

BATCH = 65_536
FILES_AT_ONCE = 2
_SPLITS = tuple(re.compile(pattern) for pattern in SEPARATORS)
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_TELLS_NOBODY = re.compile(r"[0-9]{0,5}")


@dataclass(frozen=True)
class Traces:
    """The result of a search.

    Args:
        files: Number of files read.
        size: Their size in bytes.
        found: Paths of files with a trace.
        unreadable: Paths of files that could not be read, with why.
    """

    files: int
    size: int
    found: tuple[str, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True)
class Search:
    """The terms of a search for traces.

    Args:
        fingerprints: Fingerprints of subjects, see :func:`incload_assets.protection.erasures.fingerprint`.
        columns: Names of the columns that subjects are named by.
    """

    fingerprints: frozenset[str]
    columns: frozenset[str]

    def traces(
        self, lake: Lake, paths: Iterable[str] | None = None, *, done: Callable[[int, int], None] = lambda *_: None
    ) -> Traces:
        """Searches files of a lake.

        Args:
            lake: The lake.
            paths: Their paths below the root; None: every file.
            done: Hears the number of files read, and of all.
        """
        is_trace = self._recogniser()
        found, unreadable, size, count = [], [], 0, 0
        with lake.files(lake.root) as files, ThreadPoolExecutor(FILES_AT_ONCE, "incload-traces") as pool:
            infos = files.get_file_info(pafs.FileSelector("", recursive=True) if paths is None else sorted(set(paths)))
            here = [info for info in infos if info.type == pafs.FileType.File]

            def look(info: pafs.FileInfo) -> str | bool:
                try:
                    return self._has_trace(files, info.path, is_trace)
                except FileNotFoundError:
                    return False
                except CannotUnpack as why:
                    return f"{info.path}: {why}"
                except (OSError, pa.ArrowException) as error:
                    return f"{info.path}: {type(error).__name__}"

            for number, (info, told) in enumerate(zip(here, pool.map(look, here), strict=True), 1):
                count, size = number, size + info.size
                if isinstance(told, str):
                    unreadable.append(told)
                elif told:
                    found.append(info.path)
                done(number, len(here))
        return Traces(count, size, tuple(found), tuple(unreadable))

    def is_in(self, values: Mapping[str, str | None]) -> bool:
        """Returns True if values, by column, have a trace."""
        is_trace = self._recogniser()
        given = {name: value for name, value in values.items() if value is not None}
        return any(map(is_trace, _words(given.values()))) or any(
            is_trace(value) for name, value in given.items() if name in self.columns
        )

    def _recogniser(self) -> Callable[[str], bool]:
        key = erasure_key()
        prefix = token_prefix(ERASURE, key)
        wanted = {bytes.fromhex(one.removeprefix(prefix)) for one in self.fingerprints}
        return lambda word: hmac.digest(key, word.encode(), "sha256") in wanted

    def _has_trace(self, files: pafs.FileSystem, path: str, is_trace: Callable[[str], bool]) -> bool:
        with files.open_input_file(path) as source:
            content: pa.NativeFile = source
            if not path.endswith(".parquet"):
                data = source.read()
                if not is_parquet(data):
                    return any(map(is_trace, _words([unpacked(data).decode(errors="ignore")])))
                content = pa.BufferReader(data)
            with pq.ParquetFile(content) as parquet:
                if any(map(is_trace, _words(_ranges(parquet.metadata)))):
                    return True
                for batch in parquet.iter_batches(BATCH):
                    for name, values in zip(batch.schema.names, batch.columns, strict=True):
                        if self._is_in(name, values, is_trace):
                            return True
        return False

    def _is_in(self, name: str, values: pa.Array, is_trace: Callable[[str], bool]) -> bool:
        for at, leaf in _leaves(name, values):
            if at in self.columns and any(map(is_trace, map(str, pc.unique(leaf).drop_null().to_pylist()))):
                return True
            if leaf.type in _TEXTS and any(map(is_trace, _words(_texts(pc.unique(leaf))))):
                return True
        return False


def _texts(values: pa.Array) -> Iterator[str]:
    for value in values.drop_null().to_pylist():
        yield value if isinstance(value, str) else value.decode(errors="ignore")


def _words(texts: Iterable[str]) -> set[str]:
    """All texts and their words, except those too common to identify a person."""
    found = {*texts}
    found |= {_ESCAPED.sub(lambda code: chr(int(code[1], 16)), text) for text in found if "\\u" in text}
    for text in [*found]:
        for split in _SPLITS:
            found.update(split.split(text))
    return {word for word in found if not _TELLS_NOBODY.fullmatch(word)}


def _leaves(name: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The arrays without nested members that an array consists of, with the names of their innermost fields."""
    kind = values.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _leaves(kind.field(number).name, values.field(number))
    elif pa.types.is_map(kind):
        yield from _leaves(name, values.keys)
        yield from _leaves(name, values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(name, values.flatten())
    elif pa.types.is_dictionary(kind):
        yield from _leaves(name, values.dictionary)
    else:
        yield name, values


def _ranges(footer: pq.FileMetaData) -> Iterator[str]:
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for number in range(footer.num_columns):
            found = group.column(number).statistics
            if found is not None and found.has_min_max:
                yield from (bound for bound in (found.min, found.max) if isinstance(bound, str))


def files_with_keys(lake: Lake, fingerprints: Collection[str]) -> list[str]:
    """The files that have keys of persons, whether the table of keys uses them or not.

    Args:
        lake: The lake.
        fingerprints: Fingerprints of the persons.
    """
    if store_of(lake) is None:
        return []
    found, uri = [], person_keys_uri(lake)
    with lake.files(uri) as files:
        for info in files_of_data(files):
            with files.open_input_file(info.path) as file:  # Delta writes texts of two Arrow types
                kept = pq.read_table(file, columns=["fingerprint"])["fingerprint"].cast(pa.string())
            if pc.any(pc.is_in(kept, value_set=pa.array([*fingerprints], pa.string()))).as_py():
                found.append(f"{uri}/{info.path}")
    return found

"""Words of texts, among which the identifiers of erased persons are looked for, and the files that have them."""

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from pyarrow import orc

from incload_assets.erasure.person_search import Search, _words
from incload_assets.platform.lake import Lake
from incload_assets.protection.erasures import fingerprint


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("anna-4711", '{"person": "anna-4711"}'),
        ("anna-4711", "https://shop/customers/anna-4711/orders"),
        ("anna-4711", "id=anna-4711&x=1"),
        ("anna-4711", "the order of anna-4711."),
        ("anna-4711", "key#anna-4711"),
        ("anna.4711@example.org", "mailto:anna.4711@example.org?subject=x"),
        ("anna/4711", "path:anna/4711"),
        ("rené-4711", r'{"person": "ren\u00e9-4711"}'),
        ("anna 4711", '{"person": "anna 4711"}'),
        ("crm-1f0c3a77:abc", '{"person":"crm-1f0c3a77:abc"}'),
        ("1000030", "_changes/x, 1000030"),
    ],
)
def test_an_identifier_is_a_word_of_a_text_wherever_it_stands(identifier: str, text: str) -> None:
    assert identifier in _words([text])


def test_words_that_tell_nobody_apart_are_left_out() -> None:
    assert _words(["17 1234 12345 123456"]) == {"17 1234 12345 123456", "123456"}


MARK = "anna-mark-4711"
TEXT = f'{{"person": "{MARK}"}}\n'.encode()


def packed(codec: str, data: bytes) -> bytes:
    out = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(out, codec) as packing:
        packing.write(data)
    return out.getvalue().to_pybytes()


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    monkeypatch.setenv("INCLOAD_KEY_ERASURE", "k" * 40)
    return Search(frozenset([fingerprint(MARK)]), frozenset(["person"]))


def test_compressed_files_are_read_whatever_their_names_are(search: Search, tmp_path: Path) -> None:
    files = {
        "records.json.gz": gzip.compress(TEXT),
        "two-members.gz": gzip.compress(b'{"person": "bert"}\n') + gzip.compress(TEXT),
        "inside-a-gz.gz": gzip.compress(gzip.compress(TEXT)),
        "records": bz2.compress(TEXT),
        "records.xz": lzma.compress(TEXT),
        "records.zst": packed("zstd", TEXT),
        "records.lz4": packed("lz4", TEXT),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "another.gz").write_bytes(gzip.compress(b'{"person": "bert"}'))
    table = arrow.table({"person": [MARK]})
    parquet.write_table(table, tmp_path / "part-0.parquet", compression="gzip")
    parquet.write_table(table, tmp_path / "part-1", compression="zstd")
    found = search.traces(Lake(str(tmp_path)))
    assert (set(found.found), found.unreadable) == ({*files, "part-0.parquet", "part-1"}, ())


def test_files_in_which_no_text_can_be_read_are_told_and_prove_nothing(search: Search, tmp_path: Path) -> None:
    table = arrow.table({"person": [MARK]})
    with zipfile.ZipFile(tmp_path / "records.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("records.json", TEXT)
    orc.write_table(table, str(tmp_path / "records.orc"), compression="zlib")
    (tmp_path / "records.avro").write_bytes(b"Obj\x01" + b"\0" * 20)
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(TEXT * 100)[:-20])
    (tmp_path / "cut.parquet").write_bytes(b"PAR1" + b"\0" * 20)
    (tmp_path / "plain.txt").write_bytes(b"BZ is no magic word, PK neither")
    found = search.traces(Lake(str(tmp_path)))
    assert (found.files, found.found) == (6, ())
    assert sorted(one.partition(": ")[0] for one in found.unreadable) == [
        "cut.json.gz", "cut.parquet", "records.avro", "records.orc", "records.zip",
    ]  # fmt: skip

"""The ends of records, compared with a simple reference that reads byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.connectors.files.content.ranges import FileRange, last_line_end, read_blocks, scan_records, split_lines
from fencepost.connectors.files.formats.csv_reader import Dialect
from fencepost.connectors.files.formats.line_reader import LineReader, lines
from tests.fuzz.csv_files import Reference

# Few different characters, so that line ends and quotes meet in every way.
TEXTS = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b'"', b",", b"\\", b"a", b"bc", "ü€".encode(), b"x" * 13]), max_size=40
).map(b"".join)


def reference_bounds(text: bytes | bytearray) -> list[int]:
    """The positions after each line, if the text were to go on."""
    return Reference(bytes(text), Dialect(quote=None)).bounds


def reference_lines(text: bytes) -> list[bytes]:
    """The lines of a text that ends with a line end."""
    bounds = reference_bounds(text)
    ends = bounds if bounds and bounds[-1] == len(text) else [*bounds, len(text)]
    cut = [text[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True) if end > start]
    return [line.removesuffix(b"\r\n") if line.endswith(b"\r\n") else line.rstrip(b"\r\n") for line in cut]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scan")


def write(folder: Path, text: bytes | bytearray) -> str:
    path = folder / "text"
    path.write_bytes(text)
    return str(path)


@given(
    text=TEXTS, block_bytes=st.integers(1, 30), quote=st.sampled_from([None, '"']), escape=st.sampled_from([None, "\\"])
)  # fmt: skip
def test_blocks_hold_every_whole_record_once(
    folder: Path, text: bytes, block_bytes: int, quote: str | None, escape: str | None
) -> None:
    dialect = Dialect(",", quote, escape)
    path = write(folder, text)
    bounds: list[int] = []
    with FileIO(path) as file:
        for block in read_blocks(
            file, FileRange(path, 0, len(text)), quoting=dialect.quoting, finished=False, block_bytes=block_bytes
        ):
            bounds += [block.offset + int(start) for start in block.starts[1:]] + [block.offset + block.length]
    assert bounds == Reference(text, dialect).bounds


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("bounds", [range(1000, 2**20 + 4, 1000), range(2**18 - 3, 2**18 + 4), [2**18 + 1, 2**20]])
def test_ends_of_records_are_found_in_large_blocks(folder: Path, end: bytes, bounds: Sequence[int]) -> None:
    text = bytearray(b"x" * bounds[-1])
    for bound in bounds:
        text[bound - len(end) : bound] = end
    path = write(folder, text)
    with FileIO(path) as file:
        (block,) = read_blocks(file, FileRange(path, 0, len(text)), finished=True, block_bytes=len(text))
    assert block.starts.tolist() == [0, *(bound for bound in reference_bounds(text) if bound < len(text))]


@given(text=TEXTS, block_bytes=st.integers(1, 30))
def test_lines_are_read_without_their_line_ends(folder: Path, text: bytes, block_bytes: int) -> None:
    path = write(folder, text)
    found: list[str] = []
    with FileIO(path) as file:
        for block in read_blocks(file, FileRange(path, 0, len(text)), finished=True, block_bytes=block_bytes):
            found += lines(block).to_pylist()
    assert found == [line.decode() for line in reference_lines(text)]


@given(text=TEXTS, data=st.data())
def test_the_last_line_end_is_found_from_behind(folder: Path, text: bytes, data: st.DataObject) -> None:
    path = write(folder, text)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    expected = max([bound for bound in reference_bounds(text) if start < bound <= end], default=start)
    with FileIO(path) as file:
        found = last_line_end(file, FileRange(path, start, end), len(text))
    if text[start - 1 : start + 1] != b"\r\n":  # no split begins there
        assert found == expected


@given(text=TEXTS, split_bytes=st.integers(1, 30))
def test_splits_cover_whole_lines_in_order(folder: Path, text: bytes, split_bytes: int) -> None:
    path = write(folder, text)
    bounds = reference_bounds(text)
    whole = bounds[-1] if bounds else 0
    with FileIO(path) as file:
        by_lines = split_lines(file, FileRange(path, 0, whole), split_bytes)
        by_scan = scan_records(file, FileRange(path, 0, len(text)), len(text), quoting=None, split_bytes=split_bytes)
    for splits in (by_lines, by_scan):
        assert [split.start for split in splits] == [0, *(split.end for split in splits)][: len(splits)]
        assert {split.end for split in splits} <= set(bounds)
        assert (splits[-1].end if splits else 0) == whole


@given(text=TEXTS, most=st.integers(1, 10))
def test_a_scan_stops_after_so_many_records(folder: Path, text: bytes, most: int) -> None:
    path = write(folder, text)
    with FileIO(path) as file:
        splits = scan_records(file, FileRange(path, 0, len(text)), len(text), quoting=None, split_bytes=8, most=most)
    bounds = reference_bounds(text)[:most]
    assert [splits[-1].end] == bounds[-1:] if splits else not bounds


@settings(max_examples=20)
@given(text=TEXTS, split_bytes=st.integers(1, 30))
def test_reading_the_splits_gives_the_lines_of_the_file(folder: Path, text: bytes, split_bytes: int) -> None:
    whole = text + b"\n"
    path = write(folder, whole)
    with FileIO(path) as file:
        splits = split_lines(file, FileRange(path, 0, len(whole)), split_bytes)
    found = [line for split in splits for part in LineReader().read(split) for line in part.column("value").to_pylist()]
    assert found == [line.decode() for line in reference_lines(whole)]


def test_bytes_that_are_not_utf8_become_replacement_characters(tmp_path: Path) -> None:
    path = write(tmp_path, b"good\nb\xffd\ng\xc3\xbcnstig\n")
    [batch] = LineReader().read(FileRange(path, 0, 18))
    assert batch.column("value").to_pylist() == ["good", "b�d", "günstig"]


def test_a_line_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    text = b"a" * 5_000_000 + b"\nb\n"
    batches = list(LineReader().read(FileRange(write(tmp_path, text), 0, len(text))))
    assert [len(line) for batch in batches for line in batch.column("value").to_pylist()] == [5_000_000, 1]


def test_a_batch_of_lines_is_about_a_mebibyte(tmp_path: Path) -> None:
    text = (b"x" * 99 + b"\n") * 50_000
    batches = list(LineReader().read(FileRange(write(tmp_path, text), 0, len(text))))
    assert sum(batch.num_rows for batch in batches) == 50_000
    assert max(batch.nbytes for batch in batches) < 1_200_000


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, b"one\ntwo\n")
    with pytest.raises(DataError, match="ended at byte 8 while bytes 4 to 100 were read"):
        list(LineReader().read(FileRange(path, 4, 100)))


def test_a_file_that_an_executor_does_not_have_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="every Spark executor"):
        list(LineReader().read(FileRange(str(tmp_path / "gone"), 0, 1)))

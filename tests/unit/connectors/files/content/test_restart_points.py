"""A compressed file is read on from the last member, block or frame before the position."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content import restart_point
from fencepost.connectors.files.content.codecs.bzip2_blocks import Bzip2Blocks
from fencepost.connectors.files.content.codecs.compressed_parts import BEGIN, Place
from fencepost.connectors.files.content.codecs.compression import _PARTS, Codec
from fencepost.connectors.files.content.codecs.foreign_content import HEAD_BYTES
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files.content.test_compressed_files import COMPRESS
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import CommittedOffsets, read, start

_random = random.Random(14)
LINES = [f'{number},"{_random.randbytes(30).hex()}"' for number in range(20_000)]
TEXT = "\r\n".join(LINES).encode() + b"\r\n"
ROWS = {"format": "csv", "schema": "n INT, t STRING"}


def _in_members(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    # Members end within lines, and within line ends.
    return lambda data: b"".join(compress(data[at : at + 100_001]) for at in range(0, len(data), 100_001))


FILES: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "gzip members": (Codec.GZIP, _in_members(lambda data: gzip.compress(data, 1))),
    "bzip2 blocks": (Codec.BZ2, lambda data: bz2.compress(data, 1)),
    "bzip2 streams": (Codec.BZ2, _in_members(lambda data: bz2.compress(data, 1))),
    "xz streams": (Codec.XZ, _in_members(lambda data: lzma.compress(data, preset=0))),
    "zstd frames": (Codec.ZSTD, _in_members(COMPRESS["zstd"])),
    "lz4 frames": (Codec.LZ4, _in_members(COMPRESS["lz4"])),
}
kinds = pytest.mark.parametrize("kind", FILES)


class Offsets(CommittedOffsets):
    """Committed offsets with all of their fields."""

    def offset(self, partition: Any) -> dict[str, Any] | None:
        return self.positions.get(partition["filename"])

    def commit(self, batch: SourceBatch) -> None:
        for partition, offset in batch.offsets:
            self.positions[partition["filename"]] = offset


class _Watched(FileIO):
    def __init__(self, path: str, reads: list[tuple[int, int]]) -> None:
        super().__init__(path)
        self._reads = reads

    def read(self, size: int | None = -1, /) -> bytes:
        at = self.tell()
        data = super().read(size)
        self._reads.append((at, len(data or b"")))
        return data


class WatchedPaths(AllowedPaths):
    """Records the position and size of each read, except `pread` for the fingerprint."""

    reads: list[tuple[int, int]] = []  # noqa: RUF012 - a dataclass without fields of its own

    def open(self, path: str) -> FileIO:
        return _Watched(path, self.reads)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.txt"


@pytest.fixture(autouse=True)
def _close_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_point, "RESTART_BYTES", 1)


def _task(path: Path, offsets: Offsets, allowed: AllowedPaths = ANYWHERE) -> SourceTask:
    properties = {**config(path, **ROWS, batch_bytes="150000"), "task.files": json.dumps([str(path)])}
    return start(FileSourceTask(), properties, offsets, allowed)


def _read_some(path: Path, batches: int) -> tuple[Offsets, list[int]]:
    """Read some batches and commit each; return their rows."""
    offsets, found = Offsets(), []
    task = _task(path, offsets)
    for _ in range(batches):
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        found += [row["n"] for row in read(batch)]
        offsets.commit(batch)
    return offsets, found


@kinds
def test_each_start_continues_from_the_last_part_before_its_position(path: Path, kind: str) -> None:
    path.write_bytes(FILES[kind][1](TEXT))
    offsets, found, skipped, watched = Offsets(), list[int](), 0, WatchedPaths()
    while len(found) < len(LINES):
        restart = offsets.positions.get(str(path), {}).get("restart")
        begin = json.loads(restart)["place"]["byte"] if restart else 0
        WatchedPaths.reads.clear()
        batch = _task(path, offsets, watched).poll()
        assert isinstance(batch, SourceBatch)
        found += [row["n"] for row in read(batch)]
        offsets.commit(batch)
        # All reads except the one of the first bytes, by which the compression is detected.
        assert not [at for at, size in WatchedPaths.reads if at < begin and at + size > HEAD_BYTES]
        skipped += begin > 0
    assert found == list(range(len(LINES)))
    assert skipped >= 5


def test_a_file_of_one_member_has_no_restart_point(path: Path) -> None:
    path.write_bytes(gzip.compress(TEXT))
    assert set(_read_some(path, 3)[0].positions[str(path)]) == {"position", "identity"}


def test_a_file_that_is_not_in_utf_8_has_no_restart_point(path: Path) -> None:
    path.write_bytes(_in_members(gzip.compress)(TEXT))
    task = start(FileSourceTask(), {**config(path, **ROWS, encoding="latin-1"), "task.files": json.dumps([str(path)])})
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    assert set(batch.offsets[0][1]) == {"position", "identity"}


@kinds
def test_a_file_that_was_replaced_is_not_read_from_the_restart_point(path: Path, kind: str) -> None:
    compress = FILES[kind][1]
    path.write_bytes(compress(TEXT))
    offsets, _ = _read_some(path, 5)
    path.write_bytes(compress(TEXT.replace(b"1", b"2")))
    with pytest.raises(DataError, match=r"was replaced by another one, or truncated, after it was read up to byte \d+"):
        _task(path, offsets).poll()


def test_a_file_that_is_not_compressed_any_more_was_replaced(path: Path) -> None:
    path.write_bytes(_in_members(gzip.compress)(TEXT))
    offsets, _ = _read_some(path, 5)
    path.write_bytes(TEXT)
    with pytest.raises(DataError, match="was replaced by another one"):
        _task(path, offsets).poll()


def test_without_the_restart_point_the_same_content_compressed_again_is_read_on(path: Path) -> None:
    path.write_bytes(_in_members(gzip.compress)(TEXT))
    offsets, found = _read_some(path, 5)
    path.write_bytes(gzip.compress(TEXT))
    del offsets.positions[str(path)]["restart"], offsets.positions[str(path)]["identity"]
    task = _task(path, offsets)
    while len(found) < len(LINES):
        found += [row["n"] for row in read(task.poll())]
    assert found == list(range(len(LINES)))


def test_an_offset_set_back_is_read_from_the_beginning(path: Path) -> None:
    path.write_bytes(_in_members(gzip.compress)(TEXT))
    offsets, _ = _read_some(path, 5)
    offsets.positions[str(path)]["position"] = 0
    assert [row["n"] for row in read(_task(path, offsets).poll())][:3] == [0, 1, 2]


@kinds
def test_lines_are_counted_on_after_a_restart(path: Path, kind: str) -> None:
    lines = [*LINES]
    lines[15_000] = "bad"
    path.write_bytes(FILES[kind][1]("\r\n".join(lines).encode()))
    offsets, found = _read_some(path, 4)
    task = _task(path, offsets)
    with pytest.raises(DataError, match="line 15001,"):  # noqa: PT012 - all before the error is read
        while len(found) < len(LINES):
            found += [row["n"] for row in read(task.poll())]


def test_a_member_that_is_added_later_is_read_from_the_last_one_on(path: Path) -> None:
    texts = ["\r\n".join([*LINES[at : at + 4_000], ""]).encode() for at in range(0, len(LINES), 4_000)]
    members = [gzip.compress(text, 1) for text in texts]
    path.write_bytes(b"".join(members[:-1]))
    task = _task(path, Offsets(), WatchedPaths())
    while not task._files[0].file.finished:
        read(task.poll())
    WatchedPaths.reads.clear()
    with path.open("ab") as file:
        file.write(members[-1])
    assert task.poll() is not None
    assert min(at for at, _ in WatchedPaths.reads) == sum(map(len, members[:-2]))


@pytest.mark.parametrize(
    "wrong", ["no JSON", "{}", '{"place": {"byte": -1}, "position": 1, "line": 1, "fingerprint": ""}']
)
def test_an_invalid_restart_point_is_refused(path: Path, wrong: str) -> None:
    offsets = [({"filename": str(path)}, {"position": 1, "restart": wrong})]
    with pytest.raises(DataError, match="which is invalid: remove the field restart"):
        FileSourceConnector().alter_offsets(config(path, format="text"), offsets)


def _parts(path: Path, codec: Codec, begin: Place = BEGIN) -> list[tuple[Place, bytes]]:
    found: list[tuple[Place, bytes]] = []
    with FileIO(path) as file:
        parts = _PARTS[codec](file, begin)
        while data := parts.read1(50_000):
            found.append((parts.begin, data))
    return found


@kinds
@pytest.mark.parametrize("content", ["text", "zeros", "random"])
def test_each_part_can_be_read_without_those_before(path: Path, kind: str, content: str) -> None:
    data = {"text": TEXT, "zeros": bytes(3_000_000), "random": _random.randbytes(400_000)}[content]
    codec, compress = FILES[kind]
    path.write_bytes(compress(data))
    found = _parts(path, codec)
    assert b"".join(part for _, part in found) == data
    places = list(dict.fromkeys(place for place, _ in found))
    assert len(places) >= 3 or content == "zeros"
    for place in places[1:]:
        assert _parts(path, codec, place) == found[[place for place, _ in found].index(place) :]


# pyarrow writes zstd and lz4 without checksums.
@pytest.mark.parametrize("kind", [kind for kind in FILES if "frames" not in kind])
def test_a_flipped_bit_is_found_from_any_restart_point(path: Path, kind: str) -> None:
    codec, compress = FILES[kind]
    data = bytearray(compress(TEXT))
    path.write_bytes(data)
    places = list(dict.fromkeys(place for place, _ in _parts(path, codec)))
    middle = (places[2].byte + places[3].byte) // 2
    data[middle] ^= 16
    path.write_bytes(data)
    with pytest.raises((OSError, zlib.error, lzma.LZMAError, EOFError)):
        _parts(path, codec, places[2])


def test_the_end_of_a_stream_is_compared_with_its_blocks_also_after_a_restart(path: Path) -> None:
    codec, compress = FILES["bzip2 blocks"]
    path.write_bytes(compress(TEXT))
    last = _parts(path, codec)[-1][0]
    with pytest.raises(OSError, match="checksum"):
        _parts(path, codec, replace(last, check=last.check + 1))


def test_an_offset_with_a_block_of_xz_is_read_from_the_start(path: Path) -> None:
    """Earlier versions wrote such offsets."""
    path.write_bytes(lzma.compress(TEXT))
    offsets, found = _read_some(path, 2)
    place = {"byte": 12, "bit": 0, "header": path.read_bytes()[:12].hex(), "check": 0}
    point = {"place": place, "position": 100, "line": 3, "fingerprint": "0" * 16}
    offsets.positions[str(path)]["restart"] = json.dumps(point)
    batch = _task(path, offsets).poll()
    assert isinstance(batch, SourceBatch)
    assert read(batch)[0]["n"] == len(found)
    assert "restart" not in batch.offsets[0][1]


class _WithFalseEnds(Bzip2Blocks):
    """Finds the magic number of a block within each block, as may happen by chance."""

    def _find(self, start: int) -> int:
        end = super()._find(start)
        return (start + end) // 2 if end - start > 10_000 else end


def test_the_number_of_a_block_within_a_block_is_not_its_end(path: Path) -> None:
    path.write_bytes(bz2.compress(TEXT[:300_000], 1))
    with FileIO(path) as file:
        parts = _WithFalseEnds(file, BEGIN)
        assert b"".join(iter(lambda: parts.read1(1 << 16), b"")) == TEXT[:300_000]

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.content.codecs.compression import Codec, Form, codec_of
from fencepost.connectors.files.content.codecs.foreign_content import UTF_8
from fencepost.connectors.files.content.compressed import TRUNCATED_SECONDS, ContentFile
from fencepost.connectors.files.content.origin import FileOrigin
from tests.unit.connectors.files.test_bad_rows import read_tolerant
from tests.unit.connectors.files.test_file_source import config, tasks
from tests.unit.connectors.support import CommittedOffsets, read, read_to_end


def _by_arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as out:
            out.write(data)
        return bytes(sink.getvalue())

    return compress


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zstd": _by_arrow("zstd"), "lz4": _by_arrow("lz4"),
}  # fmt: skip
LINES = [f'{number},"text, {number * 7919 % 10007}"' for number in range(3_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
ROWS = {"format": "csv", "schema": "n INT, t STRING"}

codecs = pytest.mark.parametrize("codec", COMPRESS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.txt"


@codecs
def test_all_members_of_a_compressed_file_are_read_with_any_file_name(path: Path, codec: str) -> None:
    compress = COMPRESS[codec]
    # The first member ends in the middle of a line.
    path.write_bytes(compress(TEXT[:1001]) + compress(TEXT[1001:]))
    assert codec_of(str(path), UTF_8, ANYWHERE) == (True, Codec(codec))
    [task] = tasks(config(path, **ROWS))
    assert [row["n"] for row in read_to_end(task)] == list(range(len(LINES)))


def _skipped(content: bytes, number: int = 0) -> bytes:
    """A skippable frame. pzstd writes one before each frame, with its size."""
    return bytes([0x50 + number, 0x2A, 0x4D, 0x18]) + len(content).to_bytes(4, "little") + content


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("before", [[b"size"], [b""], [b"x" * 5_000, b"", b"y"]])
def test_a_file_with_a_skippable_frame_is_recognised_by_the_next_frame(
    path: Path, codec: str, before: list[bytes]
) -> None:
    compress = COMPRESS[codec]
    skipped = b"".join(_skipped(content, number) for number, content in enumerate(before))
    path.write_bytes(skipped + compress(TEXT[:1001]) + skipped + compress(TEXT[1001:]) + skipped)
    assert codec_of(str(path), UTF_8, ANYWHERE) == (True, Codec(codec))
    [task] = tasks(config(path, **ROWS))
    assert [row["n"] for row in read_to_end(task)] == list(range(len(LINES)))


@pytest.mark.parametrize("size", [4, 7, 8, 10, 12])
def test_a_file_that_ends_after_a_skippable_frame_is_not_text(path: Path, size: int) -> None:
    path.write_bytes(_skipped(b"size")[:size])
    certain, codec = codec_of(str(path), UTF_8, ANYWHERE)
    assert (certain, codec) == (False, Codec.ZSTD)
    [task] = tasks(config(path, format="text"))
    if size == 12:
        assert read_to_end(task) == []
        return
    with pytest.raises(DataError, match="is truncated"):
        read_to_end(task)


def test_a_file_of_many_skippable_frames_is_recognised_quickly(path: Path) -> None:
    path.write_bytes(_skipped(b"") * 100_000 + COMPRESS["zstd"](TEXT))
    assert codec_of(str(path), UTF_8, ANYWHERE) == (True, Codec.ZSTD)
    [task] = tasks(config(path, **ROWS))
    assert [row["n"] for row in read_to_end(task)] == list(range(len(LINES)))


@codecs
@pytest.mark.parametrize("damage", [b"garbage after the data", b"X"])
def test_a_member_with_a_bad_header_fails_after_the_members_before_it(path: Path, codec: str, damage: bytes) -> None:
    compress = COMPRESS[codec]
    path.write_bytes(compress(TEXT[:1001]) + damage + compress(TEXT[1001:]))
    [task] = tasks(config(path, **ROWS))
    rows = []
    with pytest.raises(DataError, match=r"cannot be read|truncated"):  # noqa: PT012 - all before the error is read
        while (batch := task.poll()) is not None:
            rows += read(batch)
        task.at_end()
        task.poll()
    assert [row["n"] for row in rows] == list(range(len(rows)))
    assert len(rows) == TEXT[:1001].count(b"\n")


@pytest.mark.parametrize("codec", ["gzip", "bz2", "xz"])
def test_zeros_between_and_after_members_are_not_content(path: Path, codec: str) -> None:
    compress = COMPRESS[codec]
    path.write_bytes(compress(TEXT[:1001]) + bytes(8) + compress(TEXT[1001:]) + bytes(100_000))
    [task] = tasks(config(path, **ROWS))
    assert [row["n"] for row in read_to_end(task)] == list(range(len(LINES)))


@codecs
def test_a_file_of_no_content_is_compressed_as_well(path: Path, codec: str) -> None:
    path.write_bytes(COMPRESS[codec](b""))
    assert codec_of(str(path), UTF_8, ANYWHERE) == (True, Codec(codec))
    [task] = tasks(config(path, format="text"))
    assert read_to_end(task) == []


@codecs
def test_positions_count_the_content_and_each_of_them_can_be_resumed_from(path: Path, codec: str) -> None:
    path.write_bytes(COMPRESS[codec](b"n,t\n" + TEXT))
    offsets, found, positions = CommittedOffsets(), [], []
    properties = config(path, **ROWS, header="true", batch_bytes="20000")
    while not positions or positions[-1] < len(TEXT) + 4:
        [task] = tasks(properties, offsets=offsets)
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        offsets.commit(batch)
        positions.append(offsets.positions[str(path)])
        found += [row["n"] for row in read(batch)]
    assert found == list(range(len(LINES)))
    assert len(positions) > 2
    assert positions[-1] == len(TEXT) + 4


@codecs
def test_a_truncated_file_gives_all_that_is_whole_and_then_fails(path: Path, codec: str) -> None:
    whole = COMPRESS[codec](TEXT)
    path.write_bytes(whole[: len(whole) * 3 // 4])
    [task] = tasks(config(path, **ROWS))
    rows = []
    with pytest.raises(DataError, match=r"is truncated: .*Bring the whole file and restart the task"):  # noqa: PT012
        while not task.at_end():
            batch = task.poll()
            rows += read(batch) if batch else []
    assert [row["n"] for row in rows] == list(range(len(rows)))
    if codec == "gzip":
        assert len(rows) > 1_000


@pytest.mark.parametrize("codec", ["gzip", "bz2", "xz"])
@pytest.mark.parametrize("eighths", range(1, 8))
def test_as_much_of_a_truncated_file_is_read_as_can_be_decompressed(path: Path, codec: str, eighths: int) -> None:
    whole = COMPRESS[codec](TEXT)
    part = whole[: len(whole) * eighths // 8]
    decompressor = {
        "gzip": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
        "bz2": bz2.BZ2Decompressor,
        "xz": lzma.LZMADecompressor,
    }[codec]()
    path.write_bytes(part)
    [task] = tasks(config(path, format="text"))
    rows = []
    with pytest.raises(DataError, match="is truncated"):  # noqa: PT012 - all before the error is read
        while not task.at_end():
            batch = task.poll()
            rows += read(batch) if batch else []
    assert rows == LINES[: decompressor.decompress(part).count(b"\n")]


@codecs
def test_a_file_that_is_still_copied_is_waited_for(path: Path, codec: str) -> None:
    whole = COMPRESS[codec](TEXT)
    now = 0.0
    file = ContentFile(FileOrigin(str(path)), 0, Form(Codec(codec)), None, 1 << 20, ANYWHERE, clock=lambda: now)
    sizes = []
    for size in (len(whole) // 3, len(whole) // 2, len(whole)):
        path.write_bytes(whole[:size])
        while splits := file.advance():
            sizes.append(splits[-1].end - splits[0].start)
        now += TRUNCATED_SECONDS - 1
        assert file.finished == (size == len(whole))
    assert sum(sizes) == file.position == len(TEXT)


def test_a_file_that_stays_truncated_fails_after_a_while(path: Path) -> None:
    path.write_bytes(gzip.compress(TEXT)[:-9])
    now = 0.0
    file = ContentFile(FileOrigin(str(path)), 0, Form(Codec.GZIP), None, 1 << 20, ANYWHERE, clock=lambda: now)
    while file.advance():
        pass
    now = TRUNCATED_SECONDS
    with pytest.raises(DataError, match="is truncated"):
        file.advance()


def test_a_member_that_is_added_is_read(path: Path) -> None:
    path.write_bytes(gzip.compress(b"1\n2"))
    [task] = tasks(config(path, format="text"))
    assert read(task.poll()) == ["1", "2"]
    with path.open("ab") as file:
        file.write(gzip.compress(b"3\n"))
    assert read(task.poll()) == ["3"]


def test_damaged_data_is_reported_with_the_end_of_the_sound_part(path: Path) -> None:
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 1
    path.write_bytes(data)
    [task] = tasks(config(path, format="text"))
    with pytest.raises(DataError, match=r"cannot be read \(gzip\) after byte \d+ of its content"):
        read_to_end(task)


def test_an_offset_beyond_the_end_of_its_content_is_reported_with_the_way_out(path: Path) -> None:
    """The file was truncated or replaced, or a user set the offset: the length of the content is not known then."""
    path.write_bytes(gzip.compress(b"1\n"))
    with pytest.raises(
        DataError,
        match=rf"content of the file {path} has 2 bytes, but its offset says that it is to be read on from byte 9: it was "
        r"truncated or replaced, or .*set the offset .* PATCH /connectors/NAME/offsets, or reset",
    ):
        tasks(config(path, format="text"), offsets=CommittedOffsets({str(path): 9}))[0].poll()


def test_bad_rows_are_reported_with_position_and_line_of_the_content(path: Path) -> None:
    lines = [json.dumps({"n": n}) if n % 1000 else f"bad {n}" for n in range(3000)]
    path.write_bytes(gzip.compress("\r\n".join(lines).encode()))
    rows, refused = read_tolerant(path, format="jsonl", schema="n INT", batch_bytes="5000")
    assert len(rows) == 2997
    assert [(row.raw.decode(), row.place["line"]) for row in refused] == [
        (f"bad {n}", str(n + 1)) for n in (0, 1000, 2000)
    ]
    assert int(refused[2].place["position"]) == sum(len(line) + 2 for line in lines[:2000])


@pytest.mark.parametrize("text", ["B", "BZh is not a bzip2", "\x1f", ""])
def test_a_text_that_begins_like_compressed_data_is_read_as_text(path: Path, text: str) -> None:
    path.write_text(text)
    [task] = tasks(config(path, format="text"))
    assert read_to_end(task) == ([text] if text else [])


def test_a_file_that_was_emptied_since_the_last_start_is_reported(path: Path) -> None:
    path.write_text("")
    with pytest.raises(DataError, match="has 0 bytes, but its offset says that it is to be read on from byte 9: it"):
        tasks(config(path, format="text"), offsets=CommittedOffsets({str(path): 9}))[0].poll()


@codecs
def test_a_file_that_arrives_byte_by_byte_is_recognised_as_compressed(path: Path, codec: str) -> None:
    whole = COMPRESS[codec](b"1\n2\n")
    path.write_bytes(b"")
    [task] = tasks(config(path, format="text"))
    rows = []
    with path.open("ab", buffering=0) as file:
        for byte in whole:
            file.write(bytes([byte]))
            rows += [
                row
                for batch in task._next_batch()
                for row in read(SourceBatch(reader=batch.reader, splits=batch.splits[str(path)]))
            ]
    assert rows == ["1", "2"]

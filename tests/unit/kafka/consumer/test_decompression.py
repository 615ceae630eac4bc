"""Batches are decompressed up to a limit, with every codec and both forms of snappy."""

from __future__ import annotations

import gzip

import cramjam
import pytest

from fencepost.api.errors import DataError
from fencepost.kafka.consumer.decompression import decompressed
from fencepost.kafka.records.compression import Compression, compress

_CONTENT = b"a" * 300_000

FORMS = [
    *((each.code, bytes(compress(memoryview(_CONTENT), each))) for each in Compression if each is not Compression.NONE),
    (Compression.SNAPPY.code, bytes(cramjam.snappy.compress_raw(_CONTENT))),
    (Compression.GZIP.code, gzip.compress(_CONTENT[:100_000]) + gzip.compress(_CONTENT[100_000:])),
]


@pytest.mark.parametrize(("codec", "data"), FORMS)
@pytest.mark.parametrize("most_bytes", [None, len(_CONTENT), 10 * len(_CONTENT)])
def test_content_within_the_limit_is_whole(codec: int, data: bytes, most_bytes: int | None):
    assert decompressed(codec, data, most_bytes) == _CONTENT


@pytest.mark.parametrize(("codec", "data"), FORMS)
@pytest.mark.parametrize("most_bytes", [1, len(_CONTENT) - 1])
def test_content_beyond_the_limit_is_none(codec: int, data: bytes, most_bytes: int):
    assert decompressed(codec, data, most_bytes) is None


@pytest.mark.parametrize(("codec", "data"), FORMS)
def test_damaged_data_is_an_error_and_not_too_large(codec: int, data: bytes):
    with pytest.raises(DataError, match=r"cannot be decompressed"):
        decompressed(codec, data[: len(data) // 2], len(_CONTENT))
    with pytest.raises(DataError, match=r"cannot be decompressed"):
        decompressed(codec, data[: len(data) // 2])


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Compression.GZIP.code, gzip.compress(_CONTENT) + b"no member"),
        (Compression.GZIP.code, gzip.compress(_CONTENT) + bytes(20)),
        (Compression.SNAPPY.code, bytes(compress(memoryview(_CONTENT), Compression.SNAPPY)) + b"\0\0"),
    ],
)
@pytest.mark.parametrize("most_bytes", [None, len(_CONTENT)])
def test_bytes_after_the_content_that_javas_streams_ignore_are_ignored(codec: int, data: bytes, most_bytes: int | None):
    assert decompressed(codec, data, most_bytes) == _CONTENT


@pytest.mark.parametrize("most_bytes", [None, len(_CONTENT)])
def test_a_block_of_a_negative_length_is_refused(most_bytes: int | None):
    data = bytes(compress(memoryview(_CONTENT), Compression.SNAPPY)) + (-4).to_bytes(4, "big", signed=True)
    with pytest.raises(DataError, match=r"-4 bytes"):
        decompressed(Compression.SNAPPY.code, data, most_bytes)


def test_an_unknown_codec_is_named():
    with pytest.raises(DataError, match="codec 7"):
        decompressed(7, b"")

"""Reads the lines of a part of a file into Arrow, without Python code per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.held import HeldGroup, HeldRange, line_at, open_range
from fencepost.connectors.files.content.ranges import Block, FileRange, read_blocks

_INLINE: Final = 12  # a string view stores shorter strings inline: length, 12 bytes
_INLINE_WORDS: Final = np.arange(0, _INLINE, 4)
_INLINE_MASKS: Final = np.frombuffer(
    b"".join(b"\xff" * length + b"\0" * (_INLINE - length) for length in range(_INLINE + 1)), "<i4"
).reshape(_INLINE + 1, 3)


FEW_BYTES: Final = 4_096
"""Up to this size a part in memory is read line by line, which is then faster than creating arrays for it."""


@dataclass(frozen=True)
class LineReader:
    """An ArrowReader of lines, in batches of about one MiB. Its splits are FileRanges that end at the end of a line.

    Text is decoded as UTF-8; invalid bytes become U+FFFD, as in Java.
    """

    schema: str = "value STRING"
    allowed: AllowedPaths = ANYWHERE

    def read(self, split: FileRange | HeldGroup) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a part of a file, or of a group of parts of several files, without line terminators."""
        if isinstance(split, HeldGroup):
            split = split.whole()
        if isinstance(split, HeldRange) and split.size <= FEW_BYTES:
            yield pa.record_batch([_texts(split.data.splitlines())], names=["value"])
            return
        with open_range(split, self.allowed) as file:
            for block in read_blocks(file, split, finished=True):
                yield pa.record_batch([lines(block)], names=["value"])

    def place(self, split: FileRange | HeldGroup, row: int) -> dict[str, str]:
        """Return the place of a line of a split, given the line's number from 0.

        Raises DataError for a line beyond the split.
        """
        if isinstance(split, HeldGroup):
            split, row = split.part_of(row, self)
        with open_range(split, self.allowed) as file:
            for block in read_blocks(file, split, finished=True):
                if row < len(block.ends):
                    position = block.offset + int(block.starts[row])
                    line = line_at(split, position, self.allowed)
                    return {"file": split.path, "position": str(position), "line": str(line)}
                row -= len(block.ends)
        raise DataError(f"The file {split.path} has fewer lines than before")


def lines(block: Block) -> pa.Array:
    """Return a block's lines as a `string` array that has its own memory."""
    lengths = block.ends - block.starts
    # words[i] is the number whose four bytes start at position i of the block.
    words = np.ndarray(len(block.data) - 3, "<i4", block.data, strides=(1,))
    views = np.empty((len(lengths), 4), np.int32)
    views[:, 0] = lengths
    views[:, 1] = words[block.starts]
    views[:, 2] = 0
    views[:, 3] = block.starts
    short = np.flatnonzero(lengths <= _INLINE)
    if len(short):
        content = words[block.starts[short, None] + _INLINE_WORDS]
        views[short, 1:] = content & _INLINE_MASKS[lengths[short]]
    buffers = [None, pa.py_buffer(views), pa.py_buffer(block.data)]
    binary = pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.binary())
    if np.frombuffer(block.data, np.uint8, block.length).max() < 0x80:
        return binary.view(pa.string())
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return _texts(binary.to_pylist())


def _texts(lines: Iterable[bytes]) -> pa.Array:
    return pa.array([line.decode("utf-8", "replace") for line in lines], pa.string())

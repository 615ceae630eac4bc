"""A batch of records from files that one reader can read, and how much more fits into the batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from fencepost.api.record import ArrowReader, SourceOffset
from fencepost.connectors.files.content.growing import GrowingFile
from fencepost.connectors.files.content.held import HELD_BYTES, HeldRange
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.tables.table_reader import RowRange
from fencepost.connectors.files.tracked import TrackedFile

Splits = Sequence[FileRange | RowRange]

MOST_FILES: Final = 1_000
"""The maximum number of files in a batch."""

GATHER_SECONDS: Final = 1.0
"""After this time no further files are added to a batch, so that records are returned soon even if a store is slow."""


@dataclass(slots=True)
class FileBatch:
    """Records of files. `limit` is the maximum number of bytes; only the first file may exceed it.

    `offsets` are the source offsets after these records, by path. A file's position may already be beyond the batch,
    after records that a later batch returns.
    """

    reader: ArrowReader
    limit: int
    splits: dict[str, list[FileRange | RowRange]] = field(default_factory=dict)
    files: dict[str, TrackedFile] = field(default_factory=dict)
    offsets: dict[str, SourceOffset] = field(default_factory=dict)
    bytes: int = 0
    held: int = 0
    partial: bool = False
    until: float = field(default_factory=lambda: time.monotonic() + GATHER_SECONDS)

    def add(self, tracked: TrackedFile, splits: Splits, offset: SourceOffset) -> None:
        """Add the next records of a file, with the source offset after them."""
        self.files[tracked.path] = tracked
        self.offsets[tracked.path] = offset
        self.splits.setdefault(tracked.path, []).extend(splits)
        self.bytes += sum(split.size for split in splits)
        self.held += sum(split.size for split in splits if isinstance(split, HeldRange))
        # The size of the next records is known in advance only for growing files.
        self.partial = not (tracked.file.finished or isinstance(tracked.file, GrowingFile))

    @property
    def room(self) -> int:
        """The number of bytes that still fit, 0 if the batch is full."""
        full = (
            self.partial or len(self.files) >= MOST_FILES or self.held >= HELD_BYTES or time.monotonic() >= self.until
        )
        return 0 if full else max(0, self.limit - self.bytes)

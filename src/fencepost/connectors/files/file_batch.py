"""A batch of records of files that one reader reads: which files still fit into it."""

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
"""The largest number of files in a batch."""

GATHER_SECONDS: Final = 1.0
"""How long files are added to a batch: records of slow stores do not wait longer for more."""


@dataclass(slots=True)
class FileBatch:
    """Records of files. `limit` is a number of bytes, which the first file may exceed.

    `offsets` are the source offsets after them, by path: a file may have passed records since that are not in the batch.
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
        # The size of such a file's next records is unknown in advance.
        self.partial = not (tracked.file.finished or isinstance(tracked.file, GrowingFile))

    @property
    def room(self) -> int:
        """The number of bytes that still fit, 0 if the batch is full."""
        full = (
            self.partial or len(self.files) >= MOST_FILES or self.held >= HELD_BYTES or time.monotonic() >= self.until
        )
        return 0 if full else max(0, self.limit - self.bytes)

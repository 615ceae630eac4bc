"""The progress of incremental snapshots: the tables still to read, and the key to continue after.

It is part of the source offset, so a chunk of rows and the progress after it are in one Kafka transaction, and a killed
task resumes in the middle of a table.

    no tables --requested--> tables --began--> key, end --advanced--> last ... --table_done--> the next table, or none
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

Key = tuple[str, ...]
"""The values of a key's columns as PostgreSQL's texts."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table to read, and the signal that requested it. `condition` is SQL, None for all rows."""

    table: str
    signal: str
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """The tables to read; the first one is being read.

    `key` describes the columns of its key, empty if reading has not begun; `last` is the key of the last written row,
    None before the first; `end` was the greatest key at the start. Later rows are in the stream.
    """

    tables: tuple[TableRead, ...] = ()
    key: tuple[str, ...] = ()
    last: Key | None = None
    end: Key | None = None
    paused: bool = False

    @property
    def active(self) -> bool:
        """Whether there is something to read now."""
        return bool(self.tables) and not self.paused

    def requested(self, reads: Iterable[TableRead]) -> SnapshotProgress:
        """Return the progress with more tables added at the end."""
        return replace(self, tables=(*self.tables, *reads))

    def stopped(self, meant: Callable[[str], bool]) -> SnapshotProgress:
        """Return the progress without the tables for which `meant` is true."""
        left = tuple(read for read in self.tables if not meant(read.table))
        if not left:
            return SnapshotProgress()
        kept = replace(self, tables=left)
        return kept if left[0] == self.tables[0] else _anew(kept)

    def resting(self, *, paused: bool) -> SnapshotProgress:
        """Return the progress, paused or resumed."""
        return replace(self, paused=paused)

    def began(self, key: tuple[str, ...], end: Key) -> SnapshotProgress:
        """Return the progress at the start of the first table."""
        return replace(self, key=key, last=None, end=end)

    def advanced(self, last: Key) -> SnapshotProgress:
        """Return the progress after the row whose key is `last`."""
        return replace(self, last=last)

    def table_done(self) -> SnapshotProgress:
        """Return the progress after the first table."""
        left = self.tables[1:]
        return _anew(replace(self, tables=left)) if left else SnapshotProgress()

    def text(self) -> str | None:
        """Return the JSON for a source offset, None if no table is to be read."""
        if not self.tables:
            return None
        kept = {
            "tables": [[read.table, read.signal, read.condition] for read in self.tables],
            "key": self.key,
            "last": self.last,
            "end": self.end,
            "paused": self.paused,
        }
        return json.dumps({name: value for name, value in kept.items() if value}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> SnapshotProgress:
        """Parse the progress from JSON. Raises ValueError if it is invalid."""
        try:
            kept = json.loads(text)
            reads = tuple(TableRead(table, signal, condition) for table, signal, condition in kept["tables"])
            last, end = (tuple(map(str, kept[name])) if name in kept else None for name in ("last", "end"))
            key = tuple(map(str, kept.get("key", ())))
            paused = bool(kept.get("paused"))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{text!r} is not the progress of incremental snapshots") from error
        if any(part is not None and len(part) != len(key) for part in (last, end)) or bool(key) != bool(end):
            raise ValueError(f"{text!r} has keys of different lengths")
        return cls(reads, key, last, end, paused)


NOTHING: Final = SnapshotProgress()
"""No table is to be read."""


def _anew(progress: SnapshotProgress) -> SnapshotProgress:
    return replace(progress, key=(), last=None, end=None)

"""The progress of incremental snapshots: the tables that are still to be read, and the key after which to continue.

The progress is part of the source offset. So a chunk of rows and the progress after it are in one Kafka transaction,
and a task that was killed resumes in the middle of a table.

    no tables --requested--> tables --began--> key, end --advanced--> last ... --table_done--> the next table, or none
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

Key = tuple[str, ...]
"""The values of the key columns of a row, in PostgreSQL's text format."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table to read, and the signal that requested this. `condition` is SQL, None for all rows."""

    table: str
    signal: str
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """The tables to read; the first one is being read.

    `key` describes the key columns of the first table; it is empty if reading has not begun. `last` is the key of the
    last written row, None before the first row. `end` is the greatest key when reading began: rows after it are in the
    stream.
    """

    tables: tuple[TableRead, ...] = ()
    key: tuple[str, ...] = ()
    last: Key | None = None
    end: Key | None = None
    paused: bool = False

    @property
    def active(self) -> bool:
        """Whether there is a table to read now."""
        return bool(self.tables) and not self.paused

    def requested(self, reads: Iterable[TableRead]) -> SnapshotProgress:
        """Return the progress with more tables added at the end."""
        return replace(self, tables=(*self.tables, *reads))

    def stopped(self, is_stopped: Callable[[str], bool]) -> SnapshotProgress:
        """Return the progress without the tables for which `is_stopped` returns True."""
        left = tuple(read for read in self.tables if not is_stopped(read.table))
        if not left:
            return SnapshotProgress()
        kept = replace(self, tables=left)
        return kept if left[0] == self.tables[0] else _anew(kept)

    def with_pause(self, *, paused: bool) -> SnapshotProgress:
        """Return the progress, paused or resumed."""
        return replace(self, paused=paused)

    def began(self, key: tuple[str, ...], end: Key) -> SnapshotProgress:
        """Return the progress when reading of the first table begins."""
        return replace(self, key=key, last=None, end=end)

    def advanced(self, last: Key) -> SnapshotProgress:
        """Return the progress after the row with the key `last`."""
        return replace(self, last=last)

    def table_done(self) -> SnapshotProgress:
        """Return the progress when the first table is done."""
        left = self.tables[1:]
        return _anew(replace(self, tables=left)) if left else SnapshotProgress()

    def text(self) -> str | None:
        """Return the progress as JSON for a source offset, None if there is no table to read."""
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
"""The progress when there is no table to read."""


def _anew(progress: SnapshotProgress) -> SnapshotProgress:
    return replace(progress, key=(), last=None, end=None)

"""How far incremental snapshots are: which tables are still to be read, and from which key on.

This is part of the source offset, so a chunk of rows and the progress after it are in one Kafka transaction, and a task
that was killed goes on in the middle of a table.

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
    """A table that is to be read, and the signal that asked for it. `condition` is SQL, None for all rows."""

    table: str
    signal: str
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """The tables that are to be read; the first is being read.

    `key` are the names of its key's columns, empty if it has not begun; `last` is the key of the last row that was
    written, None before the first; `end` is the greatest key when it began. Rows beyond are in the stream.
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
        """Return the progress with more tables to read, after those that there are."""
        return replace(self, tables=(*self.tables, *reads))

    def stopped(self, meant: Callable[[str], bool]) -> SnapshotProgress:
        """Return the progress without the tables that are `meant`."""
        left = tuple(read for read in self.tables if not meant(read.table))
        if not left:
            return SnapshotProgress()
        kept = replace(self, tables=left)
        return kept if left[0] == self.tables[0] else _anew(kept)

    def resting(self, *, paused: bool) -> SnapshotProgress:
        """Return the progress that is paused, or not."""
        return replace(self, paused=paused)

    def began(self, key: tuple[str, ...], end: Key) -> SnapshotProgress:
        """Return the progress at the beginning of the first table."""
        return replace(self, key=key, last=None, end=end)

    def advanced(self, last: Key) -> SnapshotProgress:
        """Return the progress after the row whose key is `last`."""
        return replace(self, last=last)

    def table_done(self) -> SnapshotProgress:
        """Return the progress after the first table."""
        left = self.tables[1:]
        return _anew(replace(self, tables=left)) if left else SnapshotProgress()

    def text(self) -> str | None:
        """Return the JSON that a source offset keeps, None for nothing to read."""
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
        """Return the progress of a text. Raises ValueError if it is none."""
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

"""The set of transactions whose rows were delivered: the offset of JdbcSource with `mode=snapshot`.

Rows become visible in the order in which their transactions end. This differs from the order of their ids and of their
timestamps. So the offset is not a position but a set: the transactions that had ended. It has the form of PostgreSQL's
`pg_snapshot`, https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT :

    xmin:xmax:running,...     10:20:10,14,15

All transactions below `xmin` have ended, and no transaction from `xmax` on. In between, all transactions have ended
except the listed ones. A poll reads the rows of the transactions that are in the newer set but not in the older set. If
these are too many rows for one poll, the poll stops after a transaction. The delivered transactions are again a set of
this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

_TEXT: Final = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Transactions that have ended: all below `xmax` except for the `running` ones, which are in ascending order."""

    xmax: int
    running: tuple[int, ...] = ()

    @classmethod
    def of(cls, xmax: int, running: Iterable[int] = ()) -> Self:
        """Return the set of the transactions below `xmax`, without the running ones."""
        return cls(xmax, tuple(sorted({xid for xid in running if xid < xmax})))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the snapshot in a text of the form of `pg_snapshot`. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a snapshot of the form xmin:xmax:xid,xid")
        running = tuple(int(xid) for xid in match[3].split(",") if xid)
        xmin, xmax = int(match[1]), int(match[2])
        if not 0 < xmin <= xmax or any(not xmin <= xid < xmax for xid in running) or list(running) != sorted(running):
            raise ValueError(f"{text!r} is not a valid snapshot")
        # Between xmin and the first running transaction, all transactions have ended.
        return cls.of(xmax, running)

    @property
    def xmin(self) -> int:
        """The first transaction that has not ended."""
        return self.running[0] if self.running else self.xmax

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.running))}"

    def __contains__(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.running

    def unknown_in(self, newer: Self) -> tuple[tuple[int, ...], range]:
        """Return the transactions from `newer.xmin` up to `newer.xmax` that are not in this set: they may still run."""
        some = tuple(xid for xid in self.running if xid >= newer.xmin)
        return some, range(max(self.xmax, newer.xmin), newer.xmax)

    def through(self, newer: Self, last: int) -> Self:
        """Return this set plus the transactions of `newer` up to `last`, which is in `newer`."""
        later = (xid for xid in self.running if xid > last)
        still_running = (xid for xid in newer.running if xid <= last)
        return self.of(max(self.xmax, last + 1), (*later, *still_running))


NOTHING: Final = Snapshot(3)
"""A set without user transactions: the numbers below 3 are reserved by PostgreSQL."""
